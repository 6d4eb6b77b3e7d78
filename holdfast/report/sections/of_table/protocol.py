"""The protocol that all runs of a table share, and the fields that recipes set themselves."""

from __future__ import annotations

from html import escape

from holdfast.report.report import Chapter
from holdfast.report.section import Section
from holdfast.report.tables import RECIPE_FIELDS
from holdfast.report.words import in_words

__all__ = ["protocol"]


def protocol(chapter: Chapter) -> Section:
    """Return every field of the protocol; a field that recipes set themselves with all its values."""
    table = chapter.table
    own = {
        field: ", ".join(dict.fromkeys(in_words(run.manifest.protocol[field]) for run in table.runs))
        for field in RECIPE_FIELDS
        if all(field in run.manifest.protocol for run in table.runs)
    }
    items = (
        f"<dt>{escape(field.replace('_', ' '))}</dt><dd>{escape(in_words(value))}</dd>"
        for field, value in {**table.protocol, **own}.items()
    )
    return Section("Protocol", f"<dl>{''.join(items)}</dl>")
