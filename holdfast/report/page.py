"""The page: one HTML file that needs nothing but a browser, with the files of its sections beside it."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import quote

from plotly.offline import get_plotlyjs

from holdfast.machine.folders import write_whole
from holdfast.report.report import Report
from holdfast.report.section import File, Section

# The browser refuses any request that would leave the page.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; media-src data:"
)


def write_report(report: Report, out: Path | str | None = None) -> Path:
    """Write the page, by default as `report.html` in the folder of the runs, with its files; return its path."""
    page = Path(out if out is not None else report.folder)
    page = page / "report.html" if page.is_dir() else page
    for section in report.sections:
        for file in files_of(section):
            write_whole(page.with_name(f"{page.stem}-{file.name}"), file.text.encode())
    write_whole(page, render_page(report, page.stem).encode())
    return page


def files_of(section: Section) -> Iterator[File]:
    """Yield the files of a section and of its parts."""
    yield from section.files
    for part in section.parts:
        yield from files_of(part)


def render_page(report: Report, stem: str) -> str:
    """Return the whole page; `stem` is the beginning of the names of the files beside it."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(report.title)} – holdfast report</title>",
            f"<style>\n{_beside('page.css')}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<header><p class='eyebrow'>holdfast report</p>\n<h1>{escape(report.title)}</h1>",
            f"<p class='lead'>{overview(report)}</p></header>",
            *(render_section(section, stem) for section in report.sections),
            "<footer>Made by holdfast from the files of its runs alone: the same files give the same page.</footer>",
            "</main>",
            f"<script type='text/plain' id='plotly'>{_plotly()}</script>",
            f"<script>\n{_beside('page.js')}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def render_section(section: Section, stem: str, level: int = 2) -> str:
    """Return a section with its parts one level below; without a title, only what is in it.

    A section on demand is compressed, and the browser neither parses nor draws it before it is chosen.
    """
    inner = [section.html, file_links(section, stem)]
    if not section.title:
        inner += [render_section(part, stem, level) for part in section.parts]
        return "\n".join(filter(None, inner))
    inner += [render_section(part, stem, level + 1) for part in section.parts]
    body = "\n".join(filter(None, [f"<h{level}>{escape(section.title)}</h{level}>", *inner]))
    if section.on_demand:
        return (
            f'<section id="{section.anchor}" class="alone" hidden><p><a href="#">← all tables</a></p>'
            f'<script type="text/plain">{packed(body)}</script></section>'
        )
    return f'<section id="{section.anchor}">\n{body}\n</section>' if level == 2 else body


def file_links(section: Section, stem: str) -> str:
    """Return the line that links the files of a section, which the page holds itself."""
    links = " · ".join(
        f'<a download="{escape(f"{stem}-{file.name}")}" href="data:text/plain;charset=utf-8,{quote(file.text)}">'
        f"{file.format}</a>"
        for file in section.files
    )
    return f'<p class="files">{section.files_note} {links}</p>' if links else ""


def overview(report: Report) -> str:
    """Return what the report covers, in one line."""
    runs = report.runs
    counts = [count(len(runs), "run"), count(len({run.manifest.recipe.label for run in runs}), "recipe")]
    counts.append(count(len({run.manifest.seed for run in runs}), "seed"))
    if report.unfinished:
        counts.append(f'<a href="#unfinished">{len(report.unfinished)} not finished</a>')
    return " · ".join(counts)


def count(number: int, thing: str) -> str:
    """Return a number of things in words.

    >>> count(1, "run"), count(3, "run")
    ('1 run', '3 runs')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def packed(text: str) -> str:
    """Return a text compressed and printable, for a script element whose text the page gives to `unpacked`.

    >>> len(packed("a" * 10_000)) < 100, "<" in packed("<script>")
    (True, False)
    """
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _beside(name: str) -> str:
    """Return the style sheet or the script that stands beside this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """Return Plotly as the page holds it; compressing its megabytes takes longer than the rest of a page."""
    return packed(get_plotlyjs())
