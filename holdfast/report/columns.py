"""The columns of a table of recipes: one list, from which HTML, CSV, Markdown, LaTeX and the terminal are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from holdfast.report.tables import Line, Table, printed

__all__ = [
    "FEW_DOMAINS",
    "MOST_DOMAINS",
    "Cell",
    "Column",
    "cells_of",
    "columns_of",
    "domains_shown",
    "printed_columns",
]

MOST_DOMAINS = 24  # with more domains only the mean is printed; the CSV file holds them all
FEW_DOMAINS = 8  # with more domains their titles are printed vertically


@dataclass(frozen=True)
class Column:
    """One column: its titles, the value of a line at full precision, and how that is printed."""

    key: str
    value: Callable[[Line], str | float]  # `nan`: the line has none
    title: str | None = None  # in print; None: in the CSV file only
    csv_title: str | None = None  # None: in print only
    text: Callable[[Line], str] | None = None  # the printed value; None: the value itself
    align: Literal["left", "right"] = "right"
    css: str = ""  # class of its head and cells
    ranked: bool = False  # the best value is bold, and values worse than the source's are grey

    def printed(self, line: Line) -> str:
        """Return the value of a line as it is printed."""
        return self.text(line) if self.text else str(self.value(line))


@dataclass(frozen=True)
class Cell:
    """One printed value: the best of its column, or worse than the source's, or neither."""

    text: str
    best: bool = False
    worse: bool = False


def columns_of(table: Table) -> list[Column]:
    """Return every column of a table, printed or not; a new column is added here and nowhere else."""
    unit = f"{table.metric} (%)"
    shown = set(domains_shown(table))
    return [
        Column("recipe", lambda line: line.label, "recipe", "recipe", align="left", css="recipe"),
        Column("method", lambda line: line.recipe.method, csv_title="method"),
        *(
            Column(
                f"domain:{name}",
                partial(_domain_score, name),
                name if name in shown else None,
                f"{name} {unit}",
                partial(_domain_text, name),
                css="domain",
                ranked=True,
            )
            for name in table.domains
        ),
        Column("mean", lambda line: line.mean, "mean", f"mean {unit}", _mean_text, css="mean", ranked=True),
        Column("std", lambda line: math.nan if line.std is None else line.std, csv_title=f"std {unit}"),
        Column("seeds", lambda line: len(line.runs), "seeds", "seeds"),
        Column("passes", lambda line: line.passes, "passes ×", "passes per sample", lambda line: f"{line.passes:.2f}"),
        Column("step_seconds", lambda line: line.step_seconds, csv_title="median step (s)"),
        Column(
            "time",
            table.relative_time,
            "time ×",
            "step time (x source)",
            lambda line: "–" if math.isnan(time := table.relative_time(line)) else f"{time:.2f}",
        ),
        Column("resets", lambda line: line.resets, "resets", "resets", lambda line: _count(line.resets)),
        Column("skipped", lambda line: line.skipped, "skipped", "skipped batches", lambda line: _count(line.skipped)),
        Column("confidence", lambda line: line.confidence, csv_title="mean confidence"),
        Column("entropy", lambda line: line.entropy, csv_title="mean entropy (nats)"),
        *(
            Column(
                field,
                partial(Line.protocol, field=field),
                field.replace("_", " "),
                field.replace("_", " "),
                align="left",
                css="protocol",
            )
            for field in ("order", "recovery", "source_data")
        ),
    ]


def domains_shown(table: Table) -> Sequence[str]:
    """Return the domains that are printed as columns."""
    return table.domains if len(table.domains) <= MOST_DOMAINS else ()


def printed_columns(table: Table) -> list[Column]:
    """Return the columns that are printed."""
    return [column for column in columns_of(table) if column.title is not None]


def cells_of(table: Table, column: Column) -> list[Cell]:
    """Return the printed values of a column, one for each line, with their marks; a gap is never marked."""
    texts = [column.printed(line) for line in table.lines]
    if not column.ranked:
        return [Cell(text) for text in texts]
    scores = [float(column.value(line)) for line in table.lines]
    source = scores[0] if table.source else math.nan
    leading = table.leading if column.key == "mean" else ()
    return [
        Cell(
            text,
            best=not math.isnan(score) and (line in leading or not any(table.better(other, score) for other in scores)),
            worse=table.better(source, score),
        )
        for line, text, score in zip(table.lines, texts, scores, strict=True)
    ]


def _domain_score(name: str, line: Line) -> float:
    return line.scores[name]


def _domain_text(name: str, line: Line) -> str:
    return printed(line.scores[name])


def _mean_text(line: Line) -> str:
    return printed(line.mean) if line.std is None else f"{printed(line.mean)} ± {printed(line.std)}"


def _count(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
