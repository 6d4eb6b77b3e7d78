"""Gains of recoveries over the methods they were combined with."""

from __future__ import annotations

from holdfast.report.gains import gain_table
from holdfast.report.report import Chapter
from holdfast.report.section import Section, word_section

__all__ = ["recovery_gains"]


def recovery_gains(chapter: Chapter) -> Section | None:
    """Return the gains of recoveries, where a method ran with several."""
    table = chapter.table
    gains = gain_table(table)
    return word_section(gains, f"{chapter.name}-gains") if gains else None
