"""The reset arena, for suites with a scripted collapse."""

from __future__ import annotations

from holdfast.report.arena import arena_tables
from holdfast.report.report import Report
from holdfast.report.section import Section, word_section
from holdfast.report.words import slug

__all__ = ["arena"]


def arena(report: Report) -> Section | None:
    """Return one table for each suite and model in which a collapse was scripted."""
    tables = arena_tables(report.tables)
    parts = [word_section(table, slug(table.title), anchor=slug(table.title)) for table in tables]
    return Section("", parts=parts) if parts else None
