"""All recipes on all streams of a suite, with averages, and published numbers beside the same measurement."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean, stdev

from holdfast.display.cells import WORSE, Cell, CellColumn, CellTable, printed, slug
from holdfast.report.metrics import accuracy
from holdfast.report.published import beside, published, withheld
from holdfast.report.runs import RunRecord
from holdfast.report.scores import Metric, emphasis_of, margin_in_words, mean_or_nan, percent
from holdfast.report.tables import Line, Table, grouped, named


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
    margins: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (recipe, column) -> what follows the ±
    seeds: int = 1

    def cell(self, recipe: str, column: StreamColumn) -> Cell:
        """Return a score, with the published one beside it."""
        score, known = self.scores[recipe][column.name], self.published.get((recipe, column.name))
        others = [scores[column.name] for scores in self.scores.values()]
        source = self.scores.get("source", {}).get(column.name, math.nan)
        tied = (recipe, column.name) in self.tied
        emphasis = emphasis_of(self.metric, score, others, source, tied=tied)
        margin = self.margins.get((recipe, column.name))
        return Cell(score, margin, emphasis=emphasis, note="" if known is None else printed(known))

    def cells(self) -> CellTable:
        """Return the table of cells; published scores have their own columns in the CSV file."""
        unit = f"{self.metric} (%)"
        columns = [CellColumn("recipe", "recipe", [Cell(recipe) for recipe in self.scores], align="left")]
        for column in self.columns:
            scores = [self.cell(recipe, column) for recipe in self.scores]
            columns.append(CellColumn(column.head, f"{column.name} {unit}", scores))
        for column in self.columns:
            if any(column.name == name for _, name in self.published):
                known = [Cell(self.published.get((recipe, column.name), math.nan)) for recipe in self.scores]
                columns.append(CellColumn(None, f"published {column.name} {unit}", known))
        for column in self.columns:
            margins = [Cell(self.margins.get((recipe, column.name), math.nan)) for recipe in self.scores]
            if any(margin.text != "–" for margin in margins):
                columns.append(CellColumn(None, f"± {column.name} {unit}", margins))
        name = f"all-{slug(self.title)}"
        return CellTable(
            self.title,
            columns,
            self.note,
            name=name,
            css="grid",
            groups=self.groups,
            digits=6,
            caption=self.caption,
        )

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The groups of neighbouring columns with their widths; a column without a group is alone under ""."""
        neighbours = groupby(self.columns, lambda column: (column.group, column.group or column.name))
        return [(group, len(list(columns))) for (group, _), columns in neighbours]

    @property
    def caption(self) -> str:
        """What the numbers are."""
        direction = "lower" if self.metric == "error" else "higher"
        return f"{self.metric.capitalize()} in %, {direction} is better; {margin_in_words(self.seeds)}."

    @property
    def note(self) -> str:
        """Means, marks and protocol."""
        tied = ", and every score of one stream that cannot be told from it" if self.tied else ""
        return (
            f"Mean over samples, seeds and, in means, streams. Protocol {self.protocol}. "
            f"Bold: best of its column{tied}{WORSE if 'source' in self.scores else ''}."
            f"{beside(bool(self.published), self.withheld)}"
        )


def make_grids(tables: Sequence[Table]) -> list[Grid]:
    """Return a grid for each suite and model that has several streams, or published numbers.

    Protocols are equal within a grid except for the stream.
    """
    groups = grouped(tables, lambda table: table.suite_and_model + table.protocol_but_stream)
    grids = [_make_grid(group) for group in groups]
    return [grid for grid, group in zip(grids, groups, strict=True) if len(group) > 1 or grid.published]


def stream_columns(labels: Sequence[str], averages: Mapping[str, Sequence[str]] | None = None) -> list[StreamColumn]:
    """Return the columns of these streams, grouped by the label before the last dash or slash.

    A group ends with its mean. The last columns are the averages over subsets that are complete, and over all streams.

    >>> [column.name for column in stream_columns(["easy-1000", "easy-2000", "hard"], {"two": ["easy-1000", "hard"]})]
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
        stream = table.manifest.stream.label
        by_stream.setdefault(stream, []).append(table)
        for run in table.runs:
            averages.update(run.manifest.averages)
        for line in table.lines:
            means.setdefault(line.recipe.label, {}).setdefault(stream, []).append(line.mean)
    columns = stream_columns(list(by_stream), averages)
    scores = {
        recipe: {column.name: _mean([by_label.get(stream, []) for stream in column.streams]) for column in columns}
        for recipe, by_label in means.items()
    }
    protocol = str(tables[0].protocol["protocol"])
    known = _published_scores(columns, by_stream, metric)
    missing = [reason for column in columns for reason in withheld(_on(column, by_stream), "accuracy", column.name)]
    tied = {
        (line.recipe.label, label)
        for label, (first, *others) in by_stream.items()
        if not others and len(first.leading) > 1
        for line in first.leading
    }
    return Grid(
        named(tables[0].suite_and_model, tables[0].runs[0]),
        metric,
        columns,
        scores,
        protocol,
        known,
        missing,
        tied,
        margins={
            (recipe, column.name): margin
            for recipe in means
            for column in columns
            if (margin := _margin([_lines(by_stream[stream], recipe) for stream in column.streams])) is not None
        },
        seeds=max(len(line.runs) for table in tables for line in table.lines),
    )


def _lines(tables: Sequence[Table], recipe: str) -> list[Line]:
    return [line for table in tables for line in table.lines if line.recipe.label == recipe]


def _margin(by_stream: Sequence[Sequence[Line]]) -> float | None:
    """Return the ± of a mean over streams; None where one of them has no single line with one.

    Over the seeds if all streams have the same ones; else the errors of streams are independent.
    """
    if any(len(lines) != 1 or lines[0].margin is None for lines in by_stream):
        return None
    lines = [lines[0] for lines in by_stream]
    seeds = {tuple(run.manifest.seed for run in line.runs) for line in lines}
    if len(seeds) == 1 and len(lines[0].runs) > 1:
        return stdev(
            fmean(100 * accuracy(run.rows) for run in runs) for runs in zip(*(line.runs for line in lines), strict=True)
        )
    return math.hypot(*(line.margin or 0.0 for line in lines)) / len(lines)


def _mean(by_stream: Iterable[Sequence[float]]) -> float:
    """Return the mean over streams; `nan` unless each has a score."""
    means = [mean_or_nan(scores) for scores in by_stream]
    return math.nan if any(map(math.isnan, means)) else mean_or_nan(means)


def _published_scores(
    columns: Sequence[StreamColumn], by_stream: Mapping[str, Sequence[Table]], metric: Metric
) -> dict[tuple[str, str], float]:
    """Return published scores, and their averages where all parts are published."""
    known: dict[tuple[str, str], float] = {}
    for column in columns:
        runs = _on(column, by_stream)
        for (recipe, name), number in published(runs, "accuracy").items():
            if name == column.name:
                known[recipe, name] = percent(number.value / 100, metric)
    for recipe in dict.fromkeys(recipe for recipe, _ in known):
        for column in columns:
            parts = [known.get((recipe, stream)) for stream in column.streams]
            if (recipe, column.name) not in known and None not in parts:
                known[recipe, column.name] = mean_or_nan([part for part in parts if part is not None])
    return known


def _on(column: StreamColumn, by_stream: Mapping[str, Sequence[Table]]) -> list[RunRecord]:
    return [run for stream in column.streams for table in by_stream[stream] for run in table.runs]
