"""A section of a report: what the page, the terminal and the files beside the page show of one finding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from holdfast.display.cells import Tabular, WordTable
from holdfast.display.formats import to_csv, to_html, to_latex, to_markdown

FORMATS = {"csv": ("CSV", to_csv), "md": ("Markdown", to_markdown), "tex": ("LaTeX", to_latex)}


@dataclass(frozen=True)
class File:
    """A file that is written beside the page; the name of the page is put before its own."""

    name: str  # with its ending
    format: str  # as the page calls it
    text: str  # its content


@dataclass(frozen=True)
class Section:
    """One part of a report; without a title it only holds its parts together."""

    title: str  # its heading
    html: str = ""  # below the heading
    anchor: str = ""  # name for links to it
    files: Sequence[File] = ()  # that are written beside the page
    files_note: str = "This table as"  # words before the links to the files
    markdown: str = ""  # for the terminal
    parts: Sequence[Section] = ()  # sections inside it
    on_demand: bool = False  # the page shows it alone, once the reader has chosen it


def joined(parts: Sequence[Section]) -> Section | None:
    """Return the parts as one section without a title; None for none."""
    return Section("", parts=parts) if parts else None


def table_files(table: Tabular, name: str, *endings: Literal["csv", "md", "tex"]) -> list[File]:
    """Return a table as files of one name."""
    return [File(f"{name}.{ending}", FORMATS[ending][0], FORMATS[ending][1](table)) for ending in endings]


def word_section(table: WordTable, name: str, *, anchor: str = "") -> Section:
    """Return a small table as a section, with its CSV file."""
    return Section(table.title, to_html(table), anchor, table_files(table, name, "csv"), markdown=to_markdown(table))


def chart(figure: Mapping[str, Any], note: str) -> str:
    """Return an element in which a chart is drawn, with its data beside it."""
    drawn = {**figure, "data": [_visible(trace) for trace in figure.get("data", [])]}
    data = json.dumps(drawn, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f"<figure><div class='chart'></div><script type='application/json'>{data}</script>"
        f"<figcaption>{escape(note)}</figcaption></figure>"
    )


def side_by_side(*charts: str) -> str:
    """Return charts in pairs, as far as the page is wide enough."""
    return f"<div class='pairs'>{''.join(charts)}</div>"


def _visible(trace: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a trace whose line has one point, as that of a run of one batch, with a marker there.

    >>> _visible({"mode": "lines", "y": [None, 31.2]})["mode"], _visible({"mode": "lines", "y": [30, 31.2]})["mode"]
    ('lines+markers', 'lines')
    """
    points = [value for value in trace.get("y") or [] if value is not None]
    alone = trace.get("mode") == "lines" and len(points) == 1
    return {**trace, "mode": "lines+markers", "cliponaxis": False} if alone else trace
