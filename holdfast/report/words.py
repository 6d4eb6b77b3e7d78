"""Small tables of words and numbers, as they stand on the page and in the files beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["WordTable", "plain_table", "words_to_csv", "words_to_markdown"]


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


def words_to_csv(table: WordTable) -> str:
    """Return the table as CSV.

    >>> words_to_csv(WordTable("few", ["recipe", "error"], [["tent", "5.1"]])).splitlines()
    ['recipe,error', 'tent,5.1']
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([table.columns, *table.rows])
    return out.getvalue()


def words_to_markdown(table: WordTable) -> str:
    """Return title, table and note as Markdown."""
    lines = [list(table.columns), ["---"] * len(table.columns), *table.rows]
    grid = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"### {table.title}\n\n{grid}\n" + (f"\n{table.note}\n" if table.note else "")
