"""The columns and the caption of a table of recipes: one list, from which its cells are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, methodcaller
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from holdfast.display.cells import WORSE, Cell, CellColumn, CellTable
from holdfast.report.scores import emphasis_of, margin_in_words
from holdfast.report.setting import smoke

if TYPE_CHECKING:
    from holdfast.report.tables import Line, Table

MOST_DOMAINS = 24  # with more domains only the mean is printed; the CSV file holds them all
FEW_DOMAINS = 8  # with more domains their titles are printed vertically


@dataclass(frozen=True)
class Column:
    """One column of a table of recipes: its titles and the cell of a line."""

    key: str  # name of the column, unique in its table
    value: Callable[[Line], Cell | str | float]  # a text or a number is a cell without more
    title: str | None = None  # in print; None: in the CSV file only
    csv_title: str | None = None  # None: in print only
    align: Literal["left", "right"] = "right"  # of its cells in print
    css: str = ""  # class of its head and cells
    ranked: bool = False  # the best value is bold, and values worse than the source's are grey

    def cell(self, line: Line) -> Cell:
        """Return the cell of a line, without emphasis."""
        value = self.value(line)
        return value if isinstance(value, Cell) else Cell(value)


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
                css="domain",
                ranked=True,
            )
            for name in table.domains
        ),
        Column("mean", lambda line: Cell(line.mean, line.margin), "mean", f"mean {unit}", css="mean", ranked=True),
        Column("std", lambda line: math.nan if line.std is None else line.std, csv_title=f"std {unit}"),
        Column("error", _bootstrapped, csv_title=f"standard error (bootstrap) {unit}"),
        Column("seeds", lambda line: Cell(len(line.runs), form="d"), "seeds", "seeds"),
        Column("passes", lambda line: Cell(line.passes, form=".2f"), "passes ×", "passes per sample"),
        Column("estimating", lambda line: Cell(line.estimating, form=".2f"), "estimates ×", "passes of estimators"),
        Column("step_seconds", attrgetter("step_seconds"), csv_title="median step (s)"),
        Column("time", lambda line: Cell(table.relative_time(line), form=".2f"), "time ×", "step time (x source)"),
        Column("resets", lambda line: _count(line.resets), "resets", "resets"),
        Column("skipped", lambda line: _count(line.skipped), "skipped", "skipped batches"),
        Column("confidence", attrgetter("confidence"), csv_title="mean confidence"),
        Column("entropy", attrgetter("entropy"), csv_title="mean entropy (nats)"),
        *map(_protocol_column, ("order", "recovery", "source_data")),
    ]


def _protocol_column(field: str) -> Column:
    title = field.replace("_", " ")
    return Column(field, methodcaller("protocol", field), title, title, align="left", css="protocol")


def _bootstrapped(line: Line) -> float:
    return math.nan if line.std is not None or line.margin is None else line.margin


def _domain_score(name: str, line: Line) -> float:
    return line.scores[name]


def _count(number: float) -> Cell:
    """Return a mean number of things, with a decimal if it has one."""
    return Cell(number, form=".0f" if f"{number:.1f}".endswith(".0") else ".1f")


def domains_shown(table: Table) -> Sequence[str]:
    """Return the domains that are printed as columns."""
    return table.domains if len(table.domains) <= MOST_DOMAINS else ()


def recipe_cells(table: Table) -> CellTable:
    """Return a table of recipes as cells; columns without a score in which recipes do not differ are not printed."""
    columns = []
    for column in columns_of(table):
        cells = ranked_cells(table, column) if column.ranked else [column.cell(line) for line in table.lines]
        tells = column.ranked or column.key == "recipe" or len({cell.text for cell in cells}) > 1
        tells |= column.key == "estimating" and any(line.estimating for line in table.lines)
        title = column.title if tells else None
        columns.append(CellColumn(title, column.csv_title, cells, column.align, column.css))
    width = "many" if len(domains_shown(table)) > FEW_DOMAINS else "few"
    css = f"scores {width}"
    return CellTable(table.title, columns, notes(table), smoke(table), css=css, caption=caption(table))


def ranked_cells(table: Table, column: Column) -> list[Cell]:
    """Return the scores of a column, one for each line, with their emphasis; means that are tied share it."""
    cells = [column.cell(line) for line in table.lines]
    scores = [float(cell.value) for cell in cells]
    source = scores[0] if table.source else math.nan
    leading = table.leading if column.key == "mean" else ()
    return [
        replace(cell, emphasis=emphasis_of(table.metric, score, scores, source, tied=line in leading))
        for line, cell, score in zip(table.lines, cells, scores, strict=True)
    ]


def caption(table: Table) -> str:
    """Return the caption of a table: what its numbers are."""
    direction = "lower" if table.metric == "error" else "higher"
    counts = [len(line.runs) for line in table.lines]
    fewest, most = min(counts), max(counts)
    seeds = margin_in_words(most if fewest == most else f"{fewest} to {most}")
    return f"{table.metric.capitalize()} in %, {direction} is better; {seeds}."


def notes(table: Table) -> str:
    """Return what a reader of the table may want to know besides: emphasis, words, protocol and cost."""
    answers = "wrong" if table.metric == "error" else "correct"
    hidden = "" if domains_shown(table) else f" The {len(table.domains)} domains have their columns in the CSV file."
    tied = ", and every mean that cannot be told from the best" if len(table.leading) > 1 else ""
    marks = f" Bold: best of its column{tied}{WORSE if table.source else ''}."
    words = " A recipe is a method with its recovery; source is the network exactly as given." if table.source else ""
    time = " Time ×: median step, as a multiple of the source's." if table.source else ""
    watched = ", with those of its estimates" if table.runs[0].rows.estimates else ""  # of an earlier version
    if any(line.estimating for line in table.lines):
        watched = ", without those of estimators (estimates ×)"
    return (
        f"{answers.capitalize()} predictions per hundred samples, equal weight for each sample.{hidden}{marks}{words} "
        f"{protocol_sentence(table)} "
        f"Passes ×: forward and backward passes per sample{watched}, as a multiple of one forward.{time}"
    )


def protocol_sentence(table: Table) -> str:
    """Return what the protocol means, and the gain from using labels if it uses them."""
    protocol = str(table.protocol["protocol"])
    if protocol == "online":
        return "Protocol online: one pass, each batch once."
    if protocol == "online-timed":
        return (
            f"Protocol online-timed: the stream does not wait. {table.protocol['speed']:g} batches arrive while the "
            "source predicts one; those that arrive during an update are predicted by the latest state (skipped)."
        )
    twice = "every set was adapted to for several epochs, then predicted under new draws of its corruptions"
    if protocol == "offline-fixed":
        return f"Protocol offline-fixed: {twice}; no label was used."
    gaps = [line.oracle_gap for line in table.lines if line.oracle_gap is not None and not line.is_source]
    worth = f", a gain of {fmean(gaps):+.1f} points over the last epoch" if gaps else ""
    score = table.oracle_score or "accuracy"
    return (
        f"Protocol offline-oracle: {twice}, by the epoch with the best {score} on test labels{worth}; "
        "test labels are not available in deployment."
    )
