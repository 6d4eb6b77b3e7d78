"""What commands print with."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.display import WordTable

console = Console()
UNBROKEN = ("time (UTC)",)  # columns whose cells stay on one line
ALWAYS = ("mean", "average")  # columns that a narrow terminal shows besides the first


def print_table(table: WordTable, styles: Mapping[str, str] | None = None) -> None:
    """Print a table of words without lines around it, and an empty line below one with a title.

    `styles` has the style of a word wherever it stands alone in a cell.
    """
    console.print(in_terminal(table, styles), *([""] if table.title else []))


def in_terminal(table: WordTable, styles: Mapping[str, str] | None = None) -> Table:
    """Return a table of words as `rich` prints it."""
    shown = Table(title=table.title or None, title_justify="left", box=None, pad_edge=False)
    for title in table.columns:
        shown.add_column(title, overflow="fold", no_wrap=title in UNBROKEN)
    for row in table.rows:
        shown.add_row(*(Text(cell, (styles or {}).get(cell, "")) for cell in row))
    return shown


def print_markdown(text: str) -> None:
    """Print Markdown as it is into a file or pipe, and in a terminal so that it fits."""
    print(fitted(text, console.width) if console.is_terminal else text)


def fitted(text: str, width: int) -> str:
    """Return Markdown with lines of at most this width: text wraps, and tables leave out columns from the right.

    >>> print(fitted("| recipe | fog | mean | order |\\n| --- | --- | --- | --- |\\n| tent | 5.1 | 5.1 | first |", 20))
    recipe  fog  mean
    ---     ---  ---
    tent    5.1  5.1
    (1 more column: see the report)
    """
    lines: list[str] = []
    for is_table, block in groupby(text.splitlines(), lambda line: line.startswith("|")):
        if is_table:
            lines += _fitted_table(list(block), width)
        else:
            lines += [part for line in block for part in textwrap.wrap(line, width) or [""]]
    return "\n".join(lines)


def _fitted_table(lines: list[str], width: int) -> list[str]:
    if max(map(len, lines)) <= width:
        return lines
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = list(range(len(widths)))
    while sum(widths[index] + 2 for index in kept) - 2 > width and len(kept) > 1:
        others = [index for index in kept[1:] if rows[0][index] not in ALWAYS]
        kept.remove((others or kept)[-1])
    sides = [str.rjust if rule.endswith(":") else str.ljust for rule in rows[1]]
    shown = ["  ".join(sides[index](row[index], widths[index]) for index in kept).rstrip() for row in rows]
    left_out = len(widths) - len(kept)
    note = f"({left_out} more column{'s' if left_out > 1 else ''}: see the report)"
    return [*shown, *([note] if left_out else [])]


def in_words(seconds: float) -> str:
    """Return a duration as people say it.

    >>> in_words(48.2), in_words(200), in_words(9000)
    ('48 seconds', '3 minutes', '2.5 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"
