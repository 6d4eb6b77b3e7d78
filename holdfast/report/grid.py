"""All recipes on all streams of a suite, with averages, and published numbers beside the same measurement."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from holdfast.report.columns import Cell
from holdfast.report.formats import latex_cell, latex_text
from holdfast.report.published import beside, published, withheld
from holdfast.report.runs import RunRecord
from holdfast.report.tables import Metric, Table, better, canonical, grouped, mean_or_nan, named, percent, printed
from holdfast.report.words import csv_writer, slug

__all__ = ["Grid", "StreamColumn", "grid_to_csv", "grid_to_latex", "make_grids"]


@dataclass(frozen=True)
class StreamColumn:
    """Scores of one stream, or the mean over several; a column in a group has a shorter title."""

    name: str
    streams: Sequence[str]  # their labels
    group: str = ""
    title: str = ""

    @property
    def head(self) -> str:
        """The title below the name of its group."""
        return self.title or self.name


@dataclass(frozen=True, eq=False)
class Grid:
    """Mean scores in % of the metric: recipe -> column -> score, `nan` for a recipe that did not run."""

    title: str
    metric: Metric
    columns: Sequence[StreamColumn]
    scores: Mapping[str, Mapping[str, float]]
    protocol: str
    published: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (recipe, column) -> score
    withheld: Sequence[str] = ()  # why other published scores are not shown
    tied: Collection[tuple[str, str]] = ()  # (recipe, stream) that the data do not tell from the best

    def cell(self, recipe: str, column: StreamColumn) -> Cell:
        """Return a score as it is printed, with the published one in brackets."""
        score, known = self.scores[recipe][column.name], self.published.get((recipe, column.name))
        others = [scores[column.name] for scores in self.scores.values()]
        return Cell(
            printed(score) + (f" ({printed(known)})" if known is not None else ""),
            best=(recipe, column.name) in self.tied
            or (not math.isnan(score) and not any(better(self.metric, other, score) for other in others)),
            worse=better(self.metric, self.scores.get("source", {}).get(column.name, math.nan), score),
        )

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The groups of neighbouring columns with their widths; a column without a group is alone under ""."""
        named = groupby(self.columns, lambda column: column.group or column.name)
        runs = [list(run) for _, run in named]
        return [(run[0].group, len(run)) for run in runs]

    @property
    def note(self) -> str:
        """The caption: scores, marks and protocol."""
        direction = "lower" if self.metric == "error" else "higher"
        told = (
            f"{self.metric.capitalize()} in %, {direction} is better; mean over samples, seeds and, in means, streams. "
            f"Protocol {self.protocol}."
        )
        tied = ", and every score of one stream that cannot be told from it" if self.tied else ""
        told += f" Bold: best of its column{tied}{'; grey: worse than the source' if 'source' in self.scores else ''}."
        return told + beside(bool(self.published), self.withheld)


def make_grids(tables: Sequence[Table]) -> list[Grid]:
    """Return a grid for each suite and model that has several streams, or published numbers.

    Protocols are equal within a grid except for the stream.
    """
    groups = grouped(tables, lambda table: title_of(table) + canonical(_but_the_stream(table.protocol)))
    grids = [_make_grid(group) for group in groups]
    return [grid for grid, group in zip(grids, groups, strict=True) if len(group) > 1 or grid.published]


def _but_the_stream(protocol: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in protocol.items() if field not in ("stream", "samples", "collapse")}


def title_of(table: Table) -> str:
    """Return suite and model of a table, and its protocol unless that is the default."""
    manifest = table.runs[0].manifest
    return named(f"{manifest.suite} · {manifest.model.name}", table.runs[0])


def columns_of(labels: Sequence[str], averages: Mapping[str, Sequence[str]] | None = None) -> list[StreamColumn]:
    """Return the columns of these streams, grouped by the label before the last dash or slash.

    A group ends with its mean. The last columns are the averages over subsets that are complete, and over all streams.

    >>> [column.name for column in columns_of(["easy-1000", "easy-2000", "hard"], {"two": ["easy-1000", "hard"]})]
    ['easy-1000', 'easy-2000', 'easy', 'hard', 'average (two)', 'average']
    """
    columns = []
    for group in grouped(labels, _group_of):
        name = _group_of(group[0])
        if len(group) == 1:
            columns.append(StreamColumn(group[0], group))
        else:
            columns += [StreamColumn(label, [label], name, label[len(name) + 1 :]) for label in group]
            columns.append(StreamColumn(name, group, name, "mean"))
    if len(labels) == 1:
        return columns
    parts = {name: part for name, part in (averages or {}).items() if set(part) < set(labels)}
    columns += [StreamColumn(f"average ({name})", part, "average", name) for name, part in parts.items()]
    whole = (
        StreamColumn("average", labels, "average", f"all {len(labels)}") if parts else StreamColumn("average", labels)
    )
    return [*columns, whole]


def _group_of(label: str) -> str:
    return label[: max(label.rfind("-"), label.rfind("/"))] if {"-", "/"} & set(label) else label


def _make_grid(tables: Sequence[Table]) -> Grid:
    metric = tables[0].metric
    by_stream: dict[str, list[Table]] = {}
    averages: dict[str, Sequence[str]] = {}
    means: dict[str, dict[str, list[float]]] = {}  # recipe -> stream -> means
    for table in tables:
        manifest = table.runs[0].manifest
        by_stream.setdefault(manifest.stream.label, []).append(table)
        for run in table.runs:
            averages.update(run.manifest.averages)
        for line in table.lines:
            means.setdefault(line.recipe.label, {}).setdefault(manifest.stream.label, []).append(line.mean)
    columns = columns_of(list(by_stream), averages)
    scores = {
        recipe: {column.name: _mean([found.get(stream, []) for stream in column.streams]) for column in columns}
        for recipe, found in means.items()
    }
    protocol = str(tables[0].protocol["protocol"])
    known = _published(columns, by_stream, metric)
    missing = [reason for column in columns for reason in withheld(_on(column, by_stream), "accuracy", column.name)]
    tied = {
        (line.recipe.label, label)
        for label, (first, *others) in by_stream.items()
        if not others and len(first.leading) > 1
        for line in first.leading
    }
    return Grid(title_of(tables[0]), metric, columns, scores, protocol, known, missing, tied)


def _mean(by_stream: Iterable[Sequence[float]]) -> float:
    """Return the mean over streams; `nan` unless each has a score."""
    means = [mean_or_nan(scores) for scores in by_stream]
    return math.nan if any(map(math.isnan, means)) else mean_or_nan(means)


def _published(
    columns: Sequence[StreamColumn], by_stream: Mapping[str, Sequence[Table]], metric: Metric
) -> dict[tuple[str, str], float]:
    """Return published scores, and their averages where all parts are published."""
    known: dict[tuple[str, str], float] = {}
    for column in columns:
        runs = _on(column, by_stream)
        for (recipe, name), value in published(runs, "accuracy").items():
            if name == column.name:
                known[recipe, name] = percent(value / 100, metric)
    for recipe in dict.fromkeys(recipe for recipe, _ in known):
        for column in columns:
            parts = [known.get((recipe, stream)) for stream in column.streams]
            if (recipe, column.name) not in known and None not in parts:
                known[recipe, column.name] = mean_or_nan([part for part in parts if part is not None])
    return known


def _on(column: StreamColumn, by_stream: Mapping[str, Sequence[Table]]) -> list[RunRecord]:
    return [run for stream in column.streams for table in by_stream[stream] for run in table.runs]


def grid_to_csv(grid: Grid) -> str:
    """Return the grid as CSV, at full precision, with published scores in separate columns."""
    out = io.StringIO()
    write = csv_writer(out)
    known = [column for column in grid.columns if any(column.name == name for _, name in grid.published)]
    names = [*(column.name for column in grid.columns), *(f"published {column.name}" for column in known)]
    write(["recipe", *(f"{name} {grid.metric} (%)" for name in names)])
    for recipe, scores in grid.scores.items():
        values = [scores[column.name] for column in grid.columns]
        values += [grid.published.get((recipe, column.name), math.nan) for column in known]
        write([recipe, *("" if math.isnan(value) else f"{value:.6g}" for value in values)])
    return out.getvalue()


def grid_to_latex(grid: Grid) -> str:
    """Return the grid as LaTeX, groups above their columns, for a preamble with booktabs, graphicx and xcolor."""
    spans, rules, place = [], [], 2
    for group, width in grid.groups:
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(group)}}}")
        rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}" if group else "")
        place += width
    body = [
        " & ".join([latex_text(recipe), *(latex_cell(grid.cell(recipe, column)) for column in grid.columns)]) + r" \\"
        for recipe in grid.scores
    ]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx,xcolor}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(grid.title)}. {latex_text(grid.note)}}}",
            rf"\label{{tab:all-{slug(grid.title)}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}",
            r"\toprule",
            *([rf" & {' & '.join(spans)} \\", "".join(rules)] if any(rules) else []),
            rf"recipe & {' & '.join(latex_text(column.head) for column in grid.columns)} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )
