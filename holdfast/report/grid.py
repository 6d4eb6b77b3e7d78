"""Every recipe on every stream of a suite, with averages and, where the same was measured, what was published."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from holdfast.report.tables import Metric, Table, canonical, grouped, mean_or_nan, percent, printed

__all__ = ["Column", "Grid", "grid_to_csv", "make_grids"]


@dataclass(frozen=True)
class Column:
    """Scores of one stream, or the mean over several."""

    name: str
    streams: Sequence[str]  # their labels


@dataclass(frozen=True, eq=False)
class Grid:
    """Mean scores in % of the metric: recipe -> column -> score, `nan` where it did not run."""

    title: str
    metric: Metric
    columns: Sequence[Column]
    scores: Mapping[str, Mapping[str, float]]
    published: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (recipe, column) -> score

    def cell(self, recipe: str, column: Column) -> str:
        """Return a score as it is printed, the published one behind it in brackets."""
        known = self.published.get((recipe, column.name))
        return printed(self.scores[recipe][column.name]) + (f" ({printed(known)})" if known is not None else "")


def make_grids(tables: Sequence[Table]) -> list[Grid]:
    """Return a grid for each suite and model that has several streams, or published numbers to stand beside its own.

    But for the stream, protocols are equal within a grid.
    """
    groups = grouped(tables, lambda table: title_of(table) + canonical(_but_the_stream(table.protocol)))
    grids = [_make_grid(group) for group in groups]
    return [grid for grid, group in zip(grids, groups, strict=True) if len(group) > 1 or grid.published]


def _but_the_stream(protocol: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in protocol.items() if field not in ("stream", "samples")}


def title_of(table: Table) -> str:
    """Return suite and model of a table."""
    manifest = table.runs[0].manifest
    return f"{manifest.suite} · {manifest.model.name}"


def columns_of(labels: Sequence[str]) -> list[Column]:
    """Return the columns of these streams: those that share all before their last dash or slash have their mean.

    >>> [column.name for column in columns_of(["easy-1000", "easy-2000", "hard"])]
    ['easy-1000', 'easy-2000', 'easy', 'hard', 'average']
    """
    columns = []
    for group in grouped(labels, _group_of):
        columns += [Column(label, [label]) for label in group]
        if len(group) > 1:
            columns.append(Column(_group_of(group[0]), group))
    return [*columns, Column("average", labels)] if len(labels) > 1 else columns


def _group_of(label: str) -> str:
    return label[: max(label.rfind("-"), label.rfind("/"))] if {"-", "/"} & set(label) else label


def _make_grid(tables: Sequence[Table]) -> Grid:
    metric = tables[0].metric
    means: dict[str, dict[str, list[float]]] = {}  # recipe -> stream -> means
    for table in tables:
        for line in table.lines:
            label = line.recipe.label
            means.setdefault(label, {}).setdefault(table.runs[0].manifest.stream.label, []).append(line.mean)
    columns = columns_of(list(dict.fromkeys(table.runs[0].manifest.stream.label for table in tables)))
    scores = {
        recipe: {column.name: _mean([found.get(stream, []) for stream in column.streams]) for column in columns}
        for recipe, found in means.items()
    }
    return Grid(title_of(tables[0]), metric, columns, scores, _published(tables, metric))


def _mean(by_stream: Iterable[Sequence[float]]) -> float:
    """Return the mean over streams; `nan` unless there is a score for each of them."""
    means = [mean_or_nan(scores) for scores in by_stream]
    return math.nan if any(map(math.isnan, means)) else mean_or_nan(means)


def _published(tables: Sequence[Table], metric: Metric) -> dict[tuple[str, str], float]:
    """Return the scores of the paper, where suite, size of the network and length of the streams are the paper's."""
    manifest = tables[0].runs[0].manifest
    shortest = min(run.samples for table in tables for run in table.runs)
    text = (resources.files("holdfast.report") / "published.csv").read_text(encoding="utf-8")
    return {
        (row["recipe"], row["column"]): percent(float(row["accuracy"]) / 100, metric)
        for row in csv.DictReader(io.StringIO(text))
        if row["suite"] == manifest.suite
        and int(row["parameters"]) == manifest.model.parameters
        and int(row["samples"]) <= shortest
    }


def grid_to_csv(grid: Grid) -> str:
    """Return the grid as CSV, at full precision."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(["recipe", *(f"{column.name} {grid.metric} (%)" for column in grid.columns)])
    for recipe, scores in grid.scores.items():
        values = [scores[column.name] for column in grid.columns]
        write([recipe, *("" if math.isnan(value) else f"{value:.6g}" for value in values)])
    return out.getvalue()
