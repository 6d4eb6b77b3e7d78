"""A section of a report: what the page, the terminal and the files beside the page show of one finding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from holdfast.report.words import WordTable, words_to_csv, words_to_markdown

__all__ = ["File", "Section", "chart", "word_section"]


@dataclass(frozen=True)
class File:
    """A file that is written beside the page; the name of the page is put before its own."""

    name: str  # with its ending
    format: str  # as the page calls it
    text: str


@dataclass(frozen=True)
class Section:
    """One part of a report; without a title it only holds its parts together."""

    title: str
    html: str = ""  # below the heading
    anchor: str = ""
    files: Sequence[File] = ()
    files_note: str = "This table as"
    markdown: str = ""  # for the terminal
    parts: Sequence[Section] = ()
    on_demand: bool = False  # the page shows it alone, once the reader has chosen it


def word_section(table: WordTable, name: str, *, anchor: str = "") -> Section:
    """Return a small table as a section, with its CSV file."""
    file = File(f"{name}.csv", "CSV", words_to_csv(table))
    return Section(table.title, table.to_html(), anchor, [file], markdown=words_to_markdown(table))


def chart(figure: Mapping[str, Any], note: str) -> str:
    """Return the place of a chart, with its data beside it."""
    drawn = {**figure, "data": [_visible(trace) for trace in figure.get("data", [])]}
    data = json.dumps(drawn, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f"<figure><div class='chart'></div><script type='application/json'>{data}</script>"
        f"<figcaption>{escape(note)}</figcaption></figure>"
    )


def _visible(trace: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a trace whose line has one point, as that of a run of one batch, with a marker there.

    >>> _visible({"mode": "lines", "y": [None, 31.2]})["mode"], _visible({"mode": "lines", "y": [30, 31.2]})["mode"]
    ('lines+markers', 'lines')
    """
    points = [value for value in trace.get("y") or [] if value is not None]
    alone = trace.get("mode") == "lines" and len(points) == 1
    return {**trace, "mode": "lines+markers", "cliponaxis": False} if alone else trace
