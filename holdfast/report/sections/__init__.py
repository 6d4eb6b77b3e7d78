"""The sections of a report, in the order of the page: functions of the report that return a section, or None."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.report.report import Report
from holdfast.report.section import Section
from holdfast.report.sections.all_streams import all_streams
from holdfast.report.sections.arena import arena
from holdfast.report.sections.before_after import before_after
from holdfast.report.sections.contents import contents
from holdfast.report.sections.every_table import every_table
from holdfast.report.sections.rescue import rescue
from holdfast.report.sections.sensitivity import sensitivity
from holdfast.report.sections.suites import suites
from holdfast.report.sections.unfinished import unfinished

__all__ = ["SECTIONS"]

SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    rescue,
    all_streams,
    before_after,
    sensitivity,
    arena,
    contents,
    every_table,
    unfinished,
    suites,
)
