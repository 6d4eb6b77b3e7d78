"""Small tables of text, for the page, the terminal and the files beside the page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

FORMULA = tuple("=+-@\t\r")  # with which a formula begins

__all__ = ["WordTable", "aligned", "csv_writer", "in_words", "plain_table", "slug", "words_to_csv", "words_to_markdown"]


@dataclass(frozen=True)
class WordTable:
    """Columns and rows of text; the first column is the heading of its line."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def to_html(self) -> str:
        """Return the table with its note."""
        return plain_table(self.columns, self.rows, self.note)


def plain_table(titles: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a table of words as HTML; the first column is the heading of its line."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(text)}</td>" for text in others)}</tr>'
        for first, *others in rows
    )
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<figure class="words"><div class="scroll">{grid}</div>{caption}</figure>'


def csv_writer(out: io.StringIO) -> Callable[[Iterable[object]], object]:
    """Return a function that writes a line of CSV; no spreadsheet takes a text of it for a formula.

    >>> out = io.StringIO()
    >>> csv_writer(out)(["=HYPERLINK(x)", "tent", "-0.5", "+1.2 points"]) and out.getvalue()
    "'=HYPERLINK(x),tent,-0.5,'+1.2 points\\n"
    """
    write = csv.writer(out, lineterminator="\n").writerow
    return lambda cells: write([_inert(str(cell)) for cell in cells])


def _inert(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text[:1] in FORMULA else text
    return text  # a number


def words_to_csv(table: WordTable) -> str:
    """Return the table as CSV.

    >>> words_to_csv(WordTable("few", ["recipe", "error"], [["tent", "5.1"]])).splitlines()
    ['recipe,error', 'tent,5.1']
    """
    out = io.StringIO()
    for cells in (table.columns, *table.rows):
        csv_writer(out)(cells)
    return out.getvalue()


def words_to_markdown(table: WordTable) -> str:
    """Return title, table and note as Markdown."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in (table.columns, *table.rows)]
    grid = aligned(rows, ["left"] * len(table.columns))
    return f"### {table.title}\n\n{grid}\n" + (f"\n{table.note}\n" if table.note else "")


def aligned(rows: Sequence[Sequence[str]], sides: Sequence[Literal["left", "right"]]) -> str:
    """Return rows of escaped text, the first of them titles, as a Markdown table whose columns line up.

    >>> print(aligned([["recipe", "error"], ["tent", "5.1"]], ["left", "right"]))
    | recipe | error |
    | ------ | ----: |
    | tent   |   5.1 |
    """
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = [
        "-" * width if side == "left" else "-" * (width - 1) + ":" for width, side in zip(widths, sides, strict=True)
    ]
    padded = [
        [
            text.ljust(width) if side == "left" else text.rjust(width)
            for text, width, side in zip(row, widths, sides, strict=True)
        ]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (padded[0], rule, *padded[1:]))


def slug(title: str) -> str:
    """Return a title as a file name or an anchor.

    >>> slug("continual · digits_resnet")
    'continual-digits-resnet'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-").lower()


def in_words(value: object) -> str:
    """Return a setting as readable text.

    >>> in_words({"lr": 0.01, "views": 2}), in_words(None)
    ('lr 0.01, views 2', 'none')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {in_words(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(in_words, value)) or "none"
    return "none" if value is None else str(value)
