"""Samples of the stream as the model saw them."""

from __future__ import annotations

from html import escape

from holdfast.report.report import Chapter
from holdfast.report.section import Section
from holdfast.report.strips import read_strip, strip_to_html

__all__ = ["strip"]

IMAGES = "images"
AUDIO = "clips as spectrograms (frequency upwards, to half the sample rate); the player has the first of them"


def strip(chapter: Chapter) -> Section | None:
    """Return a few samples along the stream, if the runs kept them."""
    run = chapter.table.runs[0]
    places = read_strip(run)
    if not places:
        return None
    kind = AUDIO if places[0].audio else IMAGES
    note = (
        f"Consecutive {kind}, at {len(places)} positions in order of arrival, with corruption and severity of the "
        f"first (seed {run.manifest.seed})."
    )
    html = f"<figure>{strip_to_html(places)}<figcaption>{escape(note)}</figcaption></figure>"
    return Section("What the model saw", html)
