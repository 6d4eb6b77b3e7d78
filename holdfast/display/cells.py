"""A table of cells: what every table of a report becomes, and what every format is written from."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Emphasis = Literal["", "best", "worse"]  # best of its column; worse than the source

WORSE = "; grey: worse than the source"  # the end of a caption's sentence on emphasis; Markdown has italics for grey


@dataclass(frozen=True)
class Cell:
    """One cell: a text, or a number at full precision and how it is printed."""

    value: str | float  # `nan`: a gap
    interval: float | None = None  # standard deviation over the seeds
    emphasis: Emphasis = ""  # "best" of its column, or "worse" than the source
    note: str = ""  # in brackets: the published number
    form: str = ".1f"  # of a number in print

    @property
    def text(self) -> str:
        """The cell as it is printed.

        >>> Cell(5.04, 1.41, note="4.8").text, Cell("tent").text, Cell(float("nan")).text
        ('5.0 ± 1.4 (4.8)', 'tent', '–')
        """
        shown = self.value if isinstance(self.value, str) else printed(self.value, self.form)
        interval = "" if self.interval is None else f" ± {printed(self.interval)}"
        return f"{shown}{interval}{f' ({self.note})' if self.note else ''}"

    @property
    def best(self) -> bool:
        """Whether it is the best of its column, or cannot be told from it."""
        return self.emphasis == "best"

    @property
    def worse(self) -> bool:
        """Whether it is worse than the source."""
        return self.emphasis == "worse"


@dataclass(frozen=True)
class CellColumn:
    """A column of cells with its titles."""

    title: str | None  # in print; None: in the CSV file only
    csv_title: str | None  # None: in print only
    cells: Sequence[Cell]
    align: Literal["left", "right"] = "right"
    css: str = ""  # class of its head and cells


@dataclass(frozen=True)
class CellTable:
    """Columns of cells, the first of which are the headings of the lines, and what is said of them."""

    title: str
    columns: Sequence[CellColumn]
    note: str = ""  # below the table
    warning: str = ""  # after the note in files; the page shows it elsewhere
    caption: str = ""  # one short sentence: what the numbers are
    name: str = ""  # of its label in LaTeX
    css: str = "words"  # class of its figure
    groups: Sequence[tuple[str, int]] = ()  # names above the columns after the first, with their widths
    digits: int = 10  # of a number in the CSV file

    def cells(self) -> CellTable:
        """Return the table itself."""
        return self


class Tabular(Protocol):
    """Anything that can be shown as a table of cells."""

    def cells(self) -> CellTable:
        """Return the table of cells."""


@dataclass(frozen=True)
class WordTable:
    """Columns and rows of text; the first column is the heading of its line."""

    title: str  # above the table
    columns: Sequence[str]  # heads of the columns
    rows: Sequence[Sequence[str]]  # cells as text, one for each column
    note: str = ""  # below the table

    def cells(self) -> CellTable:
        """Return the table of cells."""
        return CellTable(self.title, word_columns(self.columns, self.rows), self.note)


def word_columns(titles: Sequence[str], rows: Sequence[Sequence[str | float]]) -> list[CellColumn]:
    """Return rows as columns that are the same in print and in the CSV file."""
    return [
        CellColumn(title, title, [Cell(row[index]) for row in rows], align="left") for index, title in enumerate(titles)
    ]


def slug(title: str) -> str:
    """Return a title as a file name or an anchor.

    >>> slug("continual · digits_resnet")
    'continual-digits-resnet'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-").lower()


def printed(score: float, form: str = ".1f") -> str:
    """Return a number as every table prints it.

    >>> printed(12.34), printed(12.34, "+.1f"), printed(float("nan"))
    ('12.3', '+12.3', '–')
    """
    return "–" if math.isnan(score) else f"{score:{form}}"
