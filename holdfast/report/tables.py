"""Tables of comparable runs: one line for each recipe, the source first."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import Any, TypeVar

from holdfast.display import fragment
from holdfast.display.cells import Cell, CellTable, printed
from holdfast.report import metrics
from holdfast.report.columns import recipe_cells
from holdfast.report.order import Standing, bootstrap_error, standings
from holdfast.report.runs import Manifest, RunRecord, StoredRecipe, flattened
from holdfast.report.scores import SCORES, Metric, better, mean_or_nan, percent

T = TypeVar("T")

# Protocol fields that a recipe sets itself: they may differ within a table, and are printed in its line.
RECIPE_FIELDS = ("seed", "epochs", "order", "recovery", "source_data", "recipe_imports", "cost")


@dataclass(frozen=True, eq=False)
class Line:
    """One recipe of a table: scores in % of the table's metric, means over the seeds."""

    label: str  # of the recipe
    runs: Sequence[RunRecord]  # one for each seed
    scores: Mapping[str, float]  # domain -> score; nan if the domain never came
    mean: float  # over the samples of the stream, then over the seeds
    std: float | None  # over the seeds; None with a single one
    passes: float  # forward + backward, per sample, without estimators
    estimating: float  # passes of estimators, per sample
    step_seconds: float  # of the median step
    resets: float  # mean number in a run
    skipped: float  # mean number of updates that were left out in a run
    confidence: float  # largest probability, mean over samples, then over the seeds
    entropy: float  # of the predictions, in nats

    def __repr__(self) -> str:
        return f"Line({self.label}: {Cell(self.mean, self.margin).text} %, seeds: {len(self.runs)})"

    @property
    def recipe(self) -> StoredRecipe:
        """The recipe, the same for all its runs."""
        return self.runs[0].manifest.recipe

    @property
    def oracle_gap(self) -> float | None:
        """Gain of epochs chosen by labels over the last epochs, in points, mean over the seeds; None: no oracle."""
        gaps = [run.oracle_gap for run in self.runs if run.oracle_gap is not None]
        return fmean(gaps) if gaps else None

    @property
    def is_source(self) -> bool:
        """Whether this is the source: the network as it was given, without adaptation."""
        return self.recipe.method == "source"

    @cached_property
    def margin(self) -> float | None:
        """What follows the ±: standard deviation over the seeds, or with one seed the bootstrap's standard error."""
        error = bootstrap_error(self.runs[0]) if self.std is None else self.std
        return None if math.isnan(error) else error

    def protocol(self, field: str) -> str:
        """Return a protocol field of this recipe, as text."""
        return " / ".join(dict.fromkeys(str(run.manifest.protocol.get(field, "not stated")) for run in self.runs))


@dataclass(frozen=True, eq=False)
class Table:
    """Runs under one protocol, which is held here without the fields that a recipe sets itself."""

    title: str  # stream and model, and more if that is not unique
    metric: Metric  # error or accuracy, in %
    lines: Sequence[Line]  # one for each recipe
    domains: Sequence[str]  # in stream order
    protocol: Mapping[str, Any]  # what all runs have in common

    def __repr__(self) -> str:
        return f"Table({self.title}, recipes: {len(self.lines)}; {self.conclusion})"

    def _repr_html_(self) -> str:
        return fragment(self.title, self, note=self.conclusion)

    @property
    def runs(self) -> list[RunRecord]:
        """Every run of the table."""
        return [run for line in self.lines for run in line.runs]

    @property
    def manifest(self) -> Manifest:
        """The manifest of the first run."""
        return self.lines[0].runs[0].manifest

    @property
    def suite_and_model(self) -> str:
        """The names of suite and model."""
        return f"{self.manifest.suite} · {self.manifest.model.name}"

    @property
    def protocol_but_stream(self) -> str:
        """The protocol as text, which is equal for tables that differ in nothing but their streams."""
        fields = self.protocol.items()
        return canonical({field: value for field, value in fields if field not in ("stream", "samples", "collapse")})

    @property
    def source(self) -> Line | None:
        """The line of the source, if there is one."""
        return self.lines[0] if self.lines[0].is_source else None

    @property
    def best(self) -> Line:
        """The line with the best mean."""
        return (min if self.metric == "error" else max)(self.lines, key=lambda line: line.mean)

    @cached_property
    def standings(self) -> list[Standing] | None:
        """How sure the order of the lines is; None if they cannot be compared batch by batch."""
        if len(self.lines) < 2:
            return None
        return standings([line.runs for line in self.lines], list(self.lines).index(self.best))

    @property
    def leading(self) -> list[Line]:
        """The best line, and those that the data do not tell from it."""
        if self.standings is None:
            return [self.best]
        return [line for line, one in zip(self.lines, self.standings, strict=True) if line is self.best or one.tied]

    def better(self, score: float, other: float) -> bool:
        """Return whether a score beats another one of this table."""
        return better(self.metric, score, other)

    def relative_time(self, line: Line) -> float:
        """Return the median step of a line as a multiple of the source's; `nan` without a source."""
        return line.step_seconds / self.source.step_seconds if self.source else math.nan

    @property
    def oracle_score(self) -> str | None:
        """The score by which an oracle chose the epochs, in words; None for the accuracy, or without an oracle."""
        name = self.protocol.get("oracle_score")
        return None if name is None else SCORES[str(name)]

    def cells(self) -> CellTable:
        """Return the table of cells."""
        return recipe_cells(self)

    @property
    def conclusion(self) -> str:
        """The outcome in one line."""
        best, source = self.best, self.source
        outcome = f"best: {best.label}, {printed(best.mean)} % {self.metric}"
        if len(tied := self.leading) > 1:
            *first, last = (line.label for line in tied)
            outcome = (
                f"no single best: {', '.join(first)} and {last} are tied at about {printed(best.mean)} % {self.metric}"
            )
        if source is None:
            return f"{outcome}; there is no source run, so nothing shows whether adapting helped"
        others = [line for line in self.lines if not line.is_source]
        if not others:
            return f"{outcome}; there is no other recipe yet"
        worse = sum(self.better(source.mean, line.mean) for line in others)
        if source not in tied:
            outcome += f"; source {printed(source.mean)} %"
        number, verb = worse or "none", "is" if worse < 2 else "are"
        recipes = "recipe" if len(others) == 1 else "recipes"
        return f"{outcome}; {number} of {len(others)} {recipes} {verb} worse than not adapting"


def make_tables(runs: Iterable[RunRecord], metric: Metric = "error") -> list[Table]:
    """Group finished runs into tables of equal protocols, except for the fields that a recipe sets itself."""
    if metric not in ("error", "accuracy"):
        raise ValueError(f"unknown metric {metric!r}; choose 'error' or 'accuracy'")
    finished = [run for run in runs if run.finished]
    groups = grouped(finished, lambda run: canonical(shared_protocol(run)))
    firsts = [group[0] for group in groups]
    names = [named(f"{run.manifest.stream.label} · {run.manifest.model.name}", run) for run in firsts]
    titles = told_apart(names, [shared_protocol(run) for run in firsts])
    return [make_table(title, group, metric) for title, group in zip(titles, groups, strict=True)]


def named(title: str, run: RunRecord) -> str:
    """Add the protocol to a title unless it is the default."""
    protocol = run.manifest.protocol["protocol"]
    return title if protocol == "online" else f"{title} · {protocol}"


def make_table(title: str, runs: Sequence[RunRecord], metric: Metric) -> Table:
    """Return the table of runs that share a protocol."""
    by_recipe = grouped(runs, lambda run: canonical(run.manifest.recipe.model_dump()))
    recipes = [group[0].manifest.recipe for group in by_recipe]
    labels = told_apart([recipe.label for recipe in recipes], [recipe.model_dump() for recipe in recipes])
    seen = {name for run in runs for name in run.rows.domains}
    named = dict.fromkeys(name for run in runs for name in (*run.manifest.stream.domains, *run.rows.domains))
    domains = [name for name in named if name in seen]
    lines = [make_line(label, group, domains, metric) for label, group in zip(labels, by_recipe, strict=True)]
    lines.sort(key=lambda line: not line.is_source)  # stable: the others stay in order of appearance
    return Table(title, metric, lines, domains, shared_protocol(runs[0]))


def make_line(label: str, runs: Sequence[RunRecord], domains: Iterable[str], metric: Metric) -> Line:
    """Average the runs of one recipe over its seeds."""
    by_seed = {run.manifest.seed: run for run in reversed(runs)}  # a copy of the same run counts once
    seeds = [by_seed[seed] for seed in sorted(by_seed)]
    rows = [run.rows for run in seeds]
    by_domain = [metrics.domain_accuracy(one) for one in rows]
    means = [percent(metrics.accuracy(one), metric) for one in rows]
    return Line(
        label=label,
        runs=seeds,
        scores={
            domain: mean_or_nan([percent(by_name[domain], metric) for by_name in by_domain if domain in by_name])
            for domain in domains
        },
        mean=fmean(means),
        std=stdev(means) if len(means) > 1 else None,
        passes=fmean(map(metrics.passes_per_sample, rows)),
        estimating=fmean(map(metrics.estimating_per_sample, rows)),
        step_seconds=fmean(map(metrics.median_step_seconds, rows)),
        resets=fmean(map(metrics.resets, rows)),
        skipped=fmean(map(metrics.skipped_batches, rows)),
        confidence=fmean(metrics.sample_mean(one, one.confidence) for one in rows),
        entropy=fmean(metrics.sample_mean(one, one.entropy) for one in rows),
    )


def told_apart(names: Sequence[str], contents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names; equal names get the settings in which their contents differ.

    >>> told_apart(["tent", "tent"], [{"options": {"lr": 0.01}}, {"options": {"lr": 0.02}}])
    ['tent (lr=0.01)', 'tent (lr=0.02)']
    """
    flat = [flattened(content) for content in contents]
    apart = []
    for name, own in zip(names, flat, strict=True):
        twins = [other for twin, other in zip(names, flat, strict=True) if twin == name]
        keys = dict.fromkeys(key for twin in twins for key in twin)
        differing = [key for key in keys if any(twin.get(key) != own.get(key) for twin in twins)]
        suffix = ", ".join(f"{key.rpartition('.')[2]}={own.get(key, 'default')}" for key in differing)
        apart.append(f"{name} ({suffix})" if suffix else name)
    return apart


def shared_protocol(run: RunRecord) -> dict[str, Any]:
    """Return the protocol of a run without the fields that its recipe sets itself."""
    return {field: value for field, value in run.manifest.protocol.items() if field not in RECIPE_FIELDS}


def canonical(content: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal contents."""
    return json.dumps(content, sort_keys=True)


def grouped(things: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Return things of equal key together, groups in order of appearance."""
    groups: dict[Hashable, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return list(groups.values())
