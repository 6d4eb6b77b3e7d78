"""Recommend a method for a model, its data and an expected stream, by a race of candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from holdfast.benchmark import Job, Progress, Suite, bench
from holdfast.benchmark.forecast import forecast
from holdfast.benchmark.job import SourceData
from holdfast.benchmark.live import shown
from holdfast.benchmark.preparation import passes_of
from holdfast.benchmark.schema import ModelEntry, StreamEntry
from holdfast.benchmark.suite import checked
from holdfast.commands.racing import Race
from holdfast.data import DATASETS, Dataset, as_dataset
from holdfast.display import WordTable, fragment
from holdfast.display.cells import printed
from holdfast.models import MODELS
from holdfast.models.classifier import weights_digest
from holdfast.options.spec import Spec
from holdfast.registry import Registry, UnknownNameError, nearest
from holdfast.report import Metric, read_run
from holdfast.report.figures import Figure, axis, layout, trace
from holdfast.report.scores import percent

NOTE = "Gain over the source in points, with its 95 % interval over batches and seeds."

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
    seeds: int = 1
    beaten_by: str | None = None  # the candidate for which it was stopped

    @property
    def helps(self) -> bool:
        """Whether the whole interval of the gain is above zero."""
        return self.low > 0


@dataclass(frozen=True, repr=False)
class Recommendation:
    """The candidates, best first, and those that could not run; a notebook shows it as a table."""

    scenario: Scenario  # the streams on which candidates were compared
    choices: Sequence[Choice]  # candidates that ran, best first
    unfit: Mapping[str, str]  # name -> reason

    @property
    def best(self) -> Choice | None:
        """The affordable candidate with the largest gain that was not stopped; None: do not adapt."""
        return next((choice for choice in self._left if choice.helps and choice.affordable), None)

    @property
    def best_per_cost(self) -> list[Choice]:
        """The candidates that help and that no cheaper one equals, from cheap to expensive."""
        frontier: list[Choice] = []
        for choice in sorted(self._left, key=lambda choice: (choice.time, -choice.gain)):
            if choice.helps and (not frontier or choice.gain > frontier[-1].gain):
                frontier.append(choice)
        return frontier

    @property
    def _left(self) -> list[Choice]:
        return [choice for choice in self.choices if choice.beaten_by is None]

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

    def table(self, metric: Metric = "error") -> WordTable:
        """Return the candidates as a table, best first."""
        frontier = self.best_per_cost
        rows = [
            [
                choice.name,
                printed(percent(choice.accuracy / 100, metric)),
                printed(choice.gain, "+.1f"),
                f"{printed(choice.low, '+.1f')} … {printed(choice.high, '+.1f')}",
                printed(choice.time),
                str(choice.seeds),
                self._remark(choice, frontier),
            ]
            for choice in self.choices
        ]
        titles = ["method", f"{metric} %", "gain", "95 % interval", "time ×", "seeds", "outcome"]
        return WordTable("", titles, rows, f"{NOTE} Time ×: a step, as a multiple of the source's.")

    def _remark(self, choice: Choice, frontier: Sequence[Choice]) -> str:
        if choice.beaten_by is not None:
            return f"lost to {choice.beaten_by}"
        if not choice.affordable:
            return "over the time budget"
        if choice is self.best:
            return "best"
        return "best at its cost" if choice in frontier else ""

    def __repr__(self) -> str:
        return f"Recommendation({self.conclusion})"

    def _repr_html_(self) -> str:
        misfits = [[name, reason] for name, reason in self.unfit.items()]
        others = [WordTable("", ["does not fit", "because"], misfits)] if misfits else []
        return fragment(self.conclusion, self.table(), *others)

    def figure(self) -> Figure:
        """Return the gains with their intervals over the time of a step, for `holdfast.plot`."""
        ends = [(choice.high - choice.gain, choice.gain - choice.low) for choice in self.choices]
        points = trace(
            "candidates",
            [round(choice.time, 2) for choice in self.choices],
            [round(choice.gain, 2) for choice in self.choices],
            "markers+text",
            text=[choice.name for choice in self.choices],
            textposition="top center",
            error_y={"type": "data", "array": [up for up, _ in ends], "arrayminus": [down for _, down in ends]},
        )
        axes = axis("time of a step, × source", type="log"), axis("gain over the source (points)")
        return {"data": [points], "layout": layout(440, *axes, hovermode="closest", showlegend=False)}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        frontier = [choice.name for choice in self.best_per_cost]
        return {**asdict(self), "conclusion": self.conclusion, "best_per_cost": frontier}


@dataclass(frozen=True)
class TrialPlan:
    """The runs of a recommendation before they start."""

    scenario: Scenario
    jobs: Sequence[Job]
    samples: int

    @property
    def candidates(self) -> list[str]:
        """The names of all candidates, the source first."""
        return list(dict.fromkeys(job.recipe.label for job in self.jobs))

    def seconds(self) -> float:
        """Return how long all runs take on one core if none stops early, by declared passes and a few measured ones."""
        source = next(job for job in self.jobs if job.recipe.label == "source")
        (measured,) = forecast([source], together=1)
        if measured.error:
            raise ValueError(f"the model cannot run on this stream: {measured.error}; choose data that fit the model")
        rendering = measured.rendering_hours * len({job.seed for job in self.jobs})
        return 3600 * (rendering + measured.hours * sum(passes_of(job) / passes_of(source) for job in self.jobs))


def recommend(
    model: nn.Module | str | Mapping[str, Any] | Spec,
    data: Any,
    scenario: Scenario | str = "",
    *,
    out: Path | str = "runs",
    candidates: Sequence[str] = CANDIDATES,
    severity: float = 3,
    family: str | None = None,
    samples: int = 2000,
    seeds: int = 3,
    max_time: float = math.inf,
    worth: float = 1.0,
    device: str = "cpu",
    card: str | Path | None = None,
    progress: Callable[[Progress], None] | bool | None = None,
) -> Recommendation:
    """Run candidates on such a stream of your own validation data, and rank them.

    Candidates that follow inputs from source data are shown a few hundred of the samples, uncorrupted and without
    labels, or the `card`. Intervals are over batches (as in `holdfast compare`), pooled over seeds. All candidates
    share the rendered batches of a seed, and race: one stops when another that costs no more is better, or when it
    cannot be `worth` points better than a cheaper one.

    Args:
        model: a network, or what `Spec.parse` takes, such as a name.
        data: a data set by name, anything that `as_dataset` takes, or batches of inputs with labels.
        scenario: the stream in phrases (`PHRASES`).
        out: folder for the runs, which are like those of any suite.
        candidates: methods and recipes to compare.
        severity: of the corruptions, from 0 to 5.
        family: severity tables; None: those that fit the size of the images.
        samples: length of the stream.
        seeds: number of repetitions with other draws.
        max_time: longest allowed time of a step, as a multiple of the time without adapting.
        worth: points of accuracy by which a dearer candidate has to be better.
        device: on which the networks run, such as "cuda:0".
        card: file of what `make_card` measured.
        progress: a function that is called with the progress, or False for none; by default a terminal and a notebook
            show a bar.
    """
    with _named(MODELS, model, nn.Module, weights_digest) as network, _named_data(data) as samples_from:
        trial = plan_trial(
            network,
            samples_from,
            scenario if isinstance(scenario, Scenario) else scenario_of(scenario),
            candidates=candidates,
            severity=severity,
            family=family,
            samples=samples,
            seeds=seeds,
            device=device,
            card=card,
        )
        with shown(progress, len(trial.jobs)) as tell:
            return run_trial(trial, Path(out), max_time=max_time, worth=worth, tell=tell)


def plan_trial(
    model: str | Mapping[str, Any] | Spec,
    data: str | Mapping[str, Any] | Spec,
    scenario: Scenario,
    *,
    candidates: Sequence[str] = CANDIDATES,
    severity: float = 3,
    family: str | None = None,
    samples: int = 2000,
    seeds: int = 3,
    device: str = "cpu",
    card: str | Path | None = None,
) -> TrialPlan:
    """Return the runs of `recommend`, checked."""
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
        source=SourceData(spec=Spec.parse(data)),
        seeds=list(range(seeds)),
        batch_size=scenario.batch_size,
        device=device,
    )
    return TrialPlan(scenario, checked(suite, "recommend").jobs(), samples)


def run_trial(
    trial: TrialPlan, out: Path, *, max_time: float, worth: float, tell: Callable[[Progress], None] | None
) -> Recommendation:
    """Run a trial as a race, seed by seed, and rank the candidates."""
    race, unfit = Race("source", worth, tell), dict[str, str]()
    for seed in sorted({job.seed for job in trial.jobs}):
        out_of_it = {*race.lost, *unfit}
        chosen = [job for job in trial.jobs if job.seed == seed and job.recipe.label not in out_of_it]
        folders = [job.folder(out) for job in chosen]
        known = [read_run(folder) for folder in folders if (folder / "manifest.json").exists()]
        race.start({job.name: (job.recipe.label, seed) for job in chosen}, known, trial.samples)
        outcomes = bench(chosen, out, together=len(chosen), progress=race)
        failed = {outcome.job.recipe.label: outcome.error for outcome in outcomes if outcome.error}
        unfit |= {name: error for name, error in failed.items() if name not in race.lost}
        if "source" in unfit:
            raise ValueError(f"the model cannot run on this stream: {unfit['source']}; choose data that fit the model")
        race.look()
    choices = [_choice(race, name, max_time) for name in trial.candidates if name not in unfit]
    return Recommendation(trial.scenario, sorted(choices, key=lambda choice: -choice.gain), unfit)


def _choice(race: Race, name: str, max_time: float) -> Choice:
    gain, margin = race.gain(name)
    time = race.cost(name)
    return Choice(
        name,
        accuracy=100 * (race.accuracy("source") + gain),
        gain=100 * gain,
        low=100 * (gain - margin),
        high=100 * (gain + margin),
        time=time,
        affordable=name == "source" or time <= max_time,
        seeds=race.seeds(name),
        beaten_by=race.lost.get(name),
    )


@contextmanager
def _named(registry: Registry[Any], thing: Any, kind: type, digest: Callable[[Any], str]) -> Iterator[Any]:
    """Give an object a name among those of its kind, so that jobs can be written down; a name stays as it is."""
    if not isinstance(thing, kind):
        yield thing
        return
    name = f"given_{digest(thing)[:8]}"
    registry.register(name)(lambda: thing)
    try:
        yield name
    finally:
        registry.discard(name)


@contextmanager
def _named_data(data: Any) -> Iterator[Any]:
    if isinstance(data, (str, Mapping, Spec)):
        yield data
        return
    with _named(DATASETS, _as_dataset(data), object, lambda dataset: str(dataset.digest)) as name:
        yield name


def _as_dataset(data: Any) -> Dataset:
    """Return batches of inputs with labels as a data set, and other things as `as_dataset` does."""
    first = data[0] if isinstance(data, list) and data else None
    if isinstance(first, (tuple, list)) and len(first) == 2 and getattr(first[0], "ndim", 0) in (2, 4):
        inputs, labels = (torch.cat([torch.as_tensor(batch[part]) for batch in data]) for part in (0, 1))
        return as_dataset(inputs, labels)
    return as_dataset(data)
