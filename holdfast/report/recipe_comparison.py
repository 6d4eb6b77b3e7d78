"""Compare recipes over all their streams and seeds: differences with intervals, wins, and mean ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from holdfast.decode.plain_json import finite
from holdfast.display import fragment
from holdfast.display.cells import WordTable, printed
from holdfast.display.formats import to_markdown
from holdfast.registry import nearest
from holdfast.report.compare import matched, paired_difference
from holdfast.report.metrics import accuracy
from holdfast.report.runs import RunRecord, read_runs
from holdfast.report.scores import Metric
from holdfast.report.tables import Table, make_tables


@dataclass(frozen=True)
class RecipePair:
    """Two recipes over the runs that both have: A − B in points of the metric, with what chance leaves open."""

    a: str
    b: str
    difference: float  # mean over runs
    low: float  # of the 95 % interval; nan with one run of one batch
    high: float
    wins: int  # runs in which A is better, beyond the 95 % interval over batches
    ties: int
    losses: int
    p: float  # two-sided
    corrected_p: float  # for the number of comparisons (Holm)

    @property
    def differs(self) -> bool:
        """Whether the difference holds at the 5 % level after the correction."""
        return self.corrected_p < 0.05


@dataclass(frozen=True)
class RecipeComparison:
    """All pairs of some recipes, and their mean ranks over runs."""

    metric: Metric
    recipes: Sequence[str]
    pairs: Sequence[RecipePair]
    ranks: Sequence[float]  # mean over runs, 1: best
    runs: int  # streams × seeds that all recipes have
    streams: int
    seeds: int
    critical_difference: float  # of mean ranks, at the 5 % level; nan for two recipes

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values; what is not known is None."""
        content: dict[str, Any] = finite(asdict(self))
        return content

    def cells(self) -> Any:
        """Return the table of cells."""
        rows = [
            [
                f"{pair.a} − {pair.b}",
                printed(pair.difference, "+.2f"),
                f"{printed(pair.low, '+.2f')} … {printed(pair.high, '+.2f')}",
                f"{pair.wins} / {pair.ties} / {pair.losses}",
                printed(pair.p, ".2g"),
                printed(pair.corrected_p, ".2g"),
                _better(pair, self.metric),
            ]
            for pair in self.pairs
        ]
        titles = ["recipes", "difference", "95 % interval", "wins / ties / losses", "p", "corrected p", "better"]
        return WordTable(f"{self.metric.capitalize()}, in points", titles, rows, self.note).cells()

    @property
    def note(self) -> str:
        """How the numbers are made."""
        direction = "below" if self.metric == "error" else "above"
        over = (
            f"t interval over {self.runs} runs ({self.streams} streams, {self.seeds} seeds)"
            if self.runs > 1
            else "interval over batches of the one run"
        )
        return (
            f"The first recipe is better where the difference is {direction} zero. Mean over runs, {over}. A win or "
            "loss is a run whose own 95 % interval over batches excludes zero, anything else a tie. "
            f"p: paired t test, corrected by Holm for {len(self.pairs)} comparison{'s' * (len(self.pairs) > 1)}."
        )

    def _repr_html_(self) -> str:
        return fragment("", self)

    def to_markdown(self) -> str:
        """Return the comparison as Markdown, with the mean ranks of more than two recipes."""
        text = to_markdown(self)
        if len(self.recipes) > 2:
            ordered = sorted(zip(self.ranks, self.recipes, strict=True))
            listed = ", ".join(f"{recipe} {rank:.2f}" for rank, recipe in ordered)
            text += f"\nMean ranks: {listed}; critical difference {printed(self.critical_difference, '.2f')} "
            text += "(Nemenyi, 5 %; Demšar, JMLR 2006).\n"
        return text


def compare_recipes(runs: Path | str, recipes: Sequence[str], *, metric: Metric = "error") -> RecipeComparison:
    """Compare recipes by label, pair by pair, over all streams, models and seeds of a folder that all of them have."""
    if len(recipes) < 2 or len(set(recipes)) < len(recipes):
        raise ValueError(
            f"name at least two different recipes, got {', '.join(recipes) or 'none'}; write e.g. mine,tent"
        )
    tables = make_tables(read_runs(runs), metric)
    labels = dict.fromkeys(line.label for table in tables for line in table.lines)
    for recipe in recipes:
        if recipe not in labels:
            raise ValueError(f"{runs} has no finished run of {recipe!r}; {nearest(recipe, labels)}")
    shared = [unit for table in tables for unit in _units(table, recipes)]
    if not shared:
        reason = _apart(tables, recipes)
        raise ValueError(f"no stream and seed in {runs} has runs of {', '.join(recipes)} under one protocol; {reason}")
    from scipy.stats import rankdata  # slow to import

    scores = np.array([[accuracy(run.rows) for run in unit] for unit in shared]) * 100
    sign = -1 if metric == "error" else 1
    made = [
        _pair(recipes, first, second, sign * (scores[:, first] - scores[:, second]), shared)
        for first, second in itertools.combinations(range(len(recipes)), 2)
    ]
    corrected = holm([pair.p for pair in made])
    pairs = [replace(pair, corrected_p=p) for pair, p in zip(made, corrected, strict=True)]
    ranks = rankdata(-scores, axis=1).mean(axis=0)
    return RecipeComparison(
        metric,
        list(recipes),
        pairs,
        ranks.tolist(),
        runs=len(shared),
        streams=len({(unit[0].manifest.stream.label, unit[0].manifest.model.name) for unit in shared}),
        seeds=len({unit[0].manifest.seed for unit in shared}),
        critical_difference=_critical(len(recipes), len(shared)),
    )


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values corrected for their number, step by step from the smallest (Holm, 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [math.nan] * len(ps), 0.0
    for step, index in enumerate(sorted(range(len(ps)), key=lambda index: ps[index])):
        largest = max(largest, min(1.0, (len(ps) - step) * ps[index]))
        corrected[index] = largest
    return corrected


def _units(table: Table, recipes: Sequence[str]) -> list[list[RunRecord]]:
    """Return the runs of all recipes, in their order, for each seed that all of them have."""
    by_recipe = [
        {run.manifest.seed: run for line in table.lines if line.label == recipe for run in line.runs}
        for recipe in recipes
    ]
    seeds = sorted(set.intersection(*map(set, by_recipe)))
    return [[runs[seed] for runs in by_recipe] for seed in seeds]


def _apart(tables: Sequence[Table], recipes: Sequence[str]) -> str:
    """Return in words what keeps runs of the recipes from being compared."""
    having = [[table for table in tables if any(line.label == recipe for line in table.lines)] for recipe in recipes]
    first, second = having[0][0].protocol, having[1][0].protocol
    fields = [field for field in dict.fromkeys([*first, *second]) if first.get(field) != second.get(field)]
    return f"they differ in {', '.join(fields)}" if fields else "they have no seed in common"


def _pair(
    recipes: Sequence[str],
    first: int,
    second: int,
    differences: np.ndarray[Any, np.dtype[np.float64]],
    shared: Sequence[Sequence[RunRecord]],
) -> RecipePair:
    by_batch = [paired_difference(*matched(unit[second].rows, unit[first].rows)) for unit in shared]
    # Of accuracies: A wins where its own are higher, whatever the metric.
    ahead = [difference - width > 0 for difference, width in by_batch]
    behind = [difference + width < 0 for difference, width in by_batch]
    mean, runs = float(differences.mean()), len(differences)
    freedom = (runs if runs > 1 else len(matched(shared[0][second].rows, shared[0][first].rows)[0])) - 1
    quantile = float(stdtrit(freedom, 0.975)) if freedom else math.nan
    error = float(differences.std(ddof=1)) / math.sqrt(runs) if runs > 1 else 100 * by_batch[0][1] / quantile
    width = quantile * error
    p = 2 * float(stdtr(freedom, -abs(mean) / error)) if error > 0 else float(mean == 0)
    wins, losses = sum(ahead), sum(behind)
    return RecipePair(
        recipes[first],
        recipes[second],
        mean,
        mean - width,
        mean + width,
        wins,
        len(shared) - wins - losses,
        losses,
        p,
        math.nan,
    )


def _better(pair: RecipePair, metric: Metric) -> str:
    if not pair.differs:
        return "not told apart"
    return pair.a if (pair.difference < 0) == (metric == "error") else pair.b


def _critical(recipes: int, runs: int) -> float:
    """Return by how much mean ranks must differ at the 5 % level (Nemenyi; Demšar, JMLR 2006)."""
    if recipes < 3:
        return math.nan
    from scipy.stats import studentized_range  # slow to import

    quantile = float(studentized_range.ppf(0.95, recipes, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(recipes * (recipes + 1) / (6 * runs))


def critical_difference_svg(comparison: RecipeComparison, width: int = 640) -> str:
    """Return the critical-difference figure: mean ranks, and bars over recipes that cannot be told apart."""
    order = sorted(range(len(comparison.recipes)), key=lambda index: comparison.ranks[index])
    left, right, count = 20, width - 20, len(order)
    row, top = 22, 46

    def x(rank: float) -> float:
        return left + (rank - 1) / max(1, count - 1) * (right - left)

    parts = [f'<line x1="{left}" y1="{top}" x2="{right}" y2="{top}" stroke="currentColor"/>']
    for rank in range(1, count + 1):
        at = x(rank)
        parts.append(f'<line x1="{at:.1f}" y1="{top - 4}" x2="{at:.1f}" y2="{top}" stroke="currentColor"/>')
        parts.append(f'<text x="{at:.1f}" y="{top - 8}" text-anchor="middle">{rank}</text>')
    if not math.isnan(comparison.critical_difference):
        reach = min(right, x(1 + comparison.critical_difference))
        parts.append(f'<line x1="{left}" y1="12" x2="{reach:.1f}" y2="12" stroke="currentColor" stroke-width="2"/>')
        parts.append(f'<text x="{reach + 6:.1f}" y="16">CD {comparison.critical_difference:.2f}</text>')
    groups = _cliques([comparison.ranks[index] for index in order], comparison.critical_difference)
    for number, (first, last) in enumerate(groups):
        y = top + 8 + 6 * number
        ends = x(comparison.ranks[order[first]]) - 4, x(comparison.ranks[order[last]]) + 4
        parts.append(
            f'<line x1="{ends[0]:.1f}" y1="{y}" x2="{ends[1]:.1f}" y2="{y}" stroke="currentColor" stroke-width="4"/>'
        )
    base = top + 14 + 6 * len(groups)
    half = (count + 1) // 2
    for position, index in enumerate(order):
        at, on_left = x(comparison.ranks[index]), position < half
        y = base + row * (position if on_left else count - 1 - position) + row
        edge, anchor = (left, "start") if on_left else (right, "end")
        parts.append(f'<polyline points="{at:.1f},{top} {at:.1f},{y} {edge},{y}" fill="none" stroke="currentColor"/>')
        label = f"{comparison.recipes[index]} ({comparison.ranks[index]:.2f})"
        parts.append(f'<text x="{edge}" y="{y - 4}" text-anchor="{anchor}">{escape(label)}</text>')
    height = base + row * half + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="critical difference" font-family="sans-serif" font-size="12" fill="currentColor">'
        f"{''.join(parts)}</svg>\n"
    )


def _cliques(ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """Return the longest stretches of sorted ranks that lie within the critical difference.

    >>> _cliques([1.0, 1.4, 2.0, 3.5], 0.9)
    [(0, 1), (1, 2)]
    """
    cliques: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(
            index for index in range(first, len(ranks)) if index == first or ranks[index] - ranks[first] < critical
        )
        if last > first and not (cliques and last <= cliques[-1][1]):
            cliques.append((first, last))
    return cliques
