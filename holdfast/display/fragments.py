"""HTML for notebooks: a heading, tables and a note, in the colours of the notebook."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from holdfast.display.cells import Tabular, WordTable
from holdfast.display.formats import to_html

STYLE = (
    ".holdfast figure {margin: 0.4em 0} .holdfast table {border-collapse: collapse}"
    " .holdfast .scroll {overflow-x: auto}"
    " .holdfast th, .holdfast td {text-align: left; padding: 0.15em 0.9em 0.15em 0; vertical-align: top}"
    " .holdfast .best {font-weight: bold} .holdfast .worse {opacity: 0.55}"
    " .holdfast figcaption {font-size: 0.85em; opacity: 0.75; max-width: 60em}"
)


def fragment(title: str, *tables: Tabular, note: str = "") -> str:
    """Return a title, tables and a note as HTML that a notebook shows.

    >>> "<b>2 &lt; 3</b>" in fragment("2 < 3")
    True
    """
    parts = [f"<p><b>{escape(title)}</b></p>" if title else "", *map(to_html, tables)]
    parts.append(f"<p>{escape(note)}</p>" if note else "")
    return f'<div class="holdfast"><style>{STYLE}</style>{"".join(parts)}</div>'


def facts(title: str, known: Mapping[str, str], note: str = "") -> str:
    """Return what is known of one thing as HTML that a notebook shows; what is empty is left out."""
    rows = [[name, value] for name, value in known.items() if value]
    return fragment(title, WordTable("", ["", ""], rows), note=note)
