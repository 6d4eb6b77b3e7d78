"""Recommend a method for a model, its data and an expected stream, by a small benchmark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from holdfast.benchmark import Progress, Suite, bench
from holdfast.benchmark.schema import ModelEntry, SourceEntry, StreamEntry
from holdfast.benchmark.suite import checked
from holdfast.options.spec import Spec
from holdfast.registry import UnknownNameError, nearest
from holdfast.report import Line, Table, make_tables, read_runs
from holdfast.report.compare import matched, paired_difference

__all__ = ["CANDIDATES", "PHRASES", "Choice", "Recommendation", "Scenario", "recommend", "scenario_of"]

# One method of each kind, from cheap to expensive; none requires source data, and the second line follows them.
CANDIDATES = (
    *("source", "neo", "lame", "batch_norm", "robust_bn", "unmix_tns", "bdn", "unitta_auto"),
    *("anchor", "blend", "guard"),
    *("tent", "come_tent", "zerosiam", "rdumb", "asr_eta", "deyo", "sar", "roid", "cmf", "rotta"),
)
CORRUPTIONS = (  # the four that differ most come first: noise, blur, weather, compression
    *("gaussian_noise", "defocus_blur", "fog", "jpeg_compression", "contrast", "motion_blur", "snow", "pixelate"),
    *("impulse_noise", "glass_blur", "frost", "elastic_transform", "shot_noise", "zoom_blur", "brightness"),
)


@dataclass(frozen=True)
class Scenario:
    """A description of the expected stream; classes and domains follow chains as in the stream `markov`."""

    class_stay: float | Literal["iid"] = "iid"  # probability that a class is followed by itself
    class_imbalance: float = 1.0
    domain_stay: float | Literal["iid", "continual"] = "continual"
    domain_imbalance: float = 1.0
    domains: int = 15
    batch_size: int = 64


PHRASES: Mapping[str, Mapping[str, Any]] = {
    "independent classes": {"class_stay": "iid"},
    "correlated classes": {"class_stay": 0.95},
    "imbalanced classes": {"class_imbalance": 10.0},
    "one domain": {"domains": 1},
    "few domains": {"domains": 4},
    "many domains": {"domains": 15},
    "domains in turn": {"domain_stay": "continual"},
    "lasting domains": {"domain_stay": 0.85},
    "mixed domains": {"domain_stay": "iid"},
    "small batches": {"batch_size": 8},
    "single samples": {"batch_size": 1},
}


def scenario_of(words: str, **known: Any) -> Scenario:
    """Return the scenario of a comma-separated list of phrases; `known` values override them.

    >>> scenario = scenario_of("correlated classes, few domains", batch_size=16)
    >>> scenario.class_stay, scenario.domains, scenario.batch_size
    (0.95, 4, 16)
    """
    scenario = Scenario()
    for phrase in filter(None, (" ".join(part.split()) for part in words.lower().split(","))):
        if phrase not in PHRASES:
            raise UnknownNameError(f"unknown phrase {phrase!r}; {nearest(phrase, PHRASES)}")
        scenario = replace(scenario, **PHRASES[phrase])
    return replace(scenario, **{name: value for name, value in known.items() if value is not None})


@dataclass(frozen=True)
class Choice:
    """One candidate: accuracy in %, gain over the source in points with a 95 % interval, and time."""

    name: str
    accuracy: float
    gain: float
    low: float
    high: float
    time: float  # of the median step, as a multiple of the source's time
    affordable: bool = True
    seeds: int = 1  # fewer than the others: it had lost by then

    @property
    def helps(self) -> bool:
        """Whether the whole interval of the gain is above zero."""
        return self.low > 0


@dataclass(frozen=True)
class Recommendation:
    """The candidates, best first, and those that could not run."""

    scenario: Scenario
    choices: Sequence[Choice]
    unfit: Mapping[str, str]  # name -> reason

    @property
    def best(self) -> Choice | None:
        """The affordable candidate with the largest gain; None: do not adapt."""
        return next((choice for choice in self.choices if choice.helps and choice.affordable), None)

    @property
    def best_per_cost(self) -> list[Choice]:
        """The candidates that help and that no cheaper one equals, from cheap to expensive."""
        front: list[Choice] = []
        for choice in sorted(self.choices, key=lambda choice: (choice.time, -choice.gain)):
            if choice.helps and (not front or choice.gain > front[-1].gain):
                front.append(choice)
        return front

    @property
    def conclusion(self) -> str:
        """The recommendation in one sentence."""
        if self.best is None:
            return "do not adapt: no candidate within the time budget has a gain whose 95 % interval is above zero"
        best = self.best
        return (
            f"use {best.name}: {best.gain:+.1f} points over not adapting ({best.low:+.1f} to {best.high:+.1f}), "
            f"at {best.time:.1f} times the time"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        frontier = [choice.name for choice in self.best_per_cost]
        return {**asdict(self), "conclusion": self.conclusion, "best_per_cost": frontier}


def recommend(
    model: str | Mapping[str, Any] | Spec,
    data: str | Mapping[str, Any] | Spec,
    scenario: Scenario,
    *,
    out: Path,
    candidates: Sequence[str] = CANDIDATES,
    severity: float = 3,
    family: str | None = None,
    samples: int = 2000,
    seeds: int = 3,
    max_time: float = math.inf,
    device: str = "cpu",
    card: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Recommendation:
    """Run candidates on such a stream of your own validation data, and rank them.

    `model` and `data` are Specs, or anything that `Spec.parse` takes; runs are kept in `out` like those of any suite.
    `max_time` is the longest allowed time of a step, as a multiple of the time without adapting. Candidates that follow
    inputs from source data are shown a few hundred of these, uncorrupted and without labels, or the `card` of the
    model. Intervals are over batches (as in `holdfast compare`), pooled over seeds. All candidates share the rendered
    batches of a seed; one whose interval lies below that of another has lost, and is not run with further seeds.
    """
    stream = Spec(
        "markov",
        options={
            "corruptions": list(CORRUPTIONS[: scenario.domains]),
            "domains": {"stay": scenario.domain_stay, "imbalance": scenario.domain_imbalance},
            "classes": {"stay": scenario.class_stay, "imbalance": scenario.class_imbalance},
            "severity": severity,
            "family": family,
            "samples": samples,
        },
    )
    suite = Suite(
        name="recommend",
        models=[ModelEntry(spec=Spec.parse(model), card=None if card is None else str(card))],
        streams=[StreamEntry(spec=stream, data=Spec.parse(data))],
        recipes=[Spec(name) for name in dict.fromkeys(["source", *candidates])],
        source=SourceEntry(spec=Spec.parse(data)),
        seeds=list(range(seeds)),
        batch_size=scenario.batch_size,
        device=device,
    )
    jobs = checked(suite, "recommend").jobs()
    left, folders, unfit = {job.recipe.label for job in jobs}, set[Path](), dict[str, str]()
    choices: list[Choice] = []
    for seed in range(seeds):
        chosen = [job for job in jobs if job.seed == seed and job.recipe.label in left]
        outcomes = bench(chosen, out, together=max(1, len(chosen)), progress=progress)
        unfit |= {outcome.job.recipe.label: outcome.error for outcome in outcomes if outcome.error}
        if "source" in unfit:
            raise ValueError(f"the model cannot run on this stream: {unfit['source']}; choose data that fit the model")
        folders |= {outcome.folder for outcome in outcomes if outcome.folder}
        (table,) = make_tables([run for run in read_runs(out) if run.folder in folders], "accuracy")
        choices = [_choice(table, line, max_time) for line in table.lines]
        left -= _lost(table, choices) | {*unfit}
    return Recommendation(scenario, sorted(choices, key=lambda choice: -choice.accuracy), unfit)


def _lost(table: Table, choices: Sequence[Choice]) -> set[str]:
    """Return the candidates that are worse than the best affordable one, by an interval that excludes zero."""
    lines = {line.label: line for line in table.lines}
    best = max((choice for choice in choices if choice.affordable), key=lambda choice: choice.gain)
    others = [choice.name for choice in choices if choice.name not in (best.name, "source")]
    leads = {name: _gain(lines[name], lines[best.name]) for name in others}
    return {name for name, (lead, margin) in leads.items() if lead - margin > 0}


def _gain(base: Line, line: Line) -> tuple[float, float]:
    """Return how far a line is above another on the seeds of both, and half the width of its 95 % interval."""
    known = {run.manifest.seed: run for run in base.runs}
    runs = [run for run in line.runs if run.manifest.seed in known]
    pairs = [paired_difference(*matched(known[run.manifest.seed].rows, run.rows)) for run in runs]
    gain = sum(difference for difference, _ in pairs) / len(pairs)
    return gain, math.sqrt(sum(half_width**2 for _, half_width in pairs)) / len(pairs)


def _choice(table: Table, line: Line, max_time: float) -> Choice:
    assert table.source is not None
    gain, margin = _gain(table.source, line)
    time = table.relative_time(line) or math.nan
    return Choice(
        line.label,
        line.mean,
        gain=100 * gain,
        low=100 * (gain - margin),
        high=100 * (gain + margin),
        time=time,
        affordable=line.is_source or time <= max_time,
        seeds=len(line.runs),
    )
