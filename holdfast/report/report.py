"""The report of a folder of runs, computed once; the page and the terminal output are two views of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.display import WordTable, fragment
from holdfast.display.cells import slug
from holdfast.registry import Registry
from holdfast.report.runs import RunRecord
from holdfast.report.scores import Metric
from holdfast.report.section import Section
from holdfast.report.tables import Table

MANY = 20  # tables
SHOWN = 4  # in a notebook


@dataclass(frozen=True, eq=False)
class Chapter:
    """One table of a report, and the name of its files."""

    folder: Path  # of all runs
    table: Table
    name: str


@dataclass(frozen=True, eq=False)
class Report:
    """Runs, the tables that they make, and the sections in which these are shown."""

    folder: Path  # of the runs
    metric: Metric  # error or accuracy, in %
    runs: Sequence[RunRecord]  # all runs of the folder
    tables: Sequence[Table]  # one for each protocol
    sections: Sequence[Section] = ()  # what the page shows, in order

    def __repr__(self) -> str:
        return f"Report({self.title}, runs: {len(self.runs)}, tables: {len(self.tables)})"

    def _repr_html_(self) -> str:
        shown = self.tables[:SHOWN]
        more = f"{len(self.tables) - SHOWN} more tables. " if len(self.tables) > SHOWN else ""
        verdicts = WordTable("", ["table", "outcome"], [[table.title, table.conclusion] for table in shown])
        note = f"{more}plot(report) draws the first table; write_report(report) writes the page with every figure."
        return fragment(self.title, verdicts, *shown, note=note)

    @property
    def title(self) -> str:
        """The suites that were run."""
        return ", ".join(dict.fromkeys(run.manifest.suite for run in self.runs))

    @property
    def paged(self) -> bool:
        """Whether there are too many tables to be read from top to bottom: then the page shows one at a time."""
        return len(self.tables) > MANY

    @property
    def unfinished(self) -> list[RunRecord]:
        """Runs that are in no table yet."""
        return [run for run in self.runs if not run.finished]

    @property
    def chapters(self) -> list[Chapter]:
        """The tables, each with a distinct name for its files."""
        names: list[str] = []
        for table in self.tables:
            name = slug(table.title)
            while name in names:
                name += "-too"
            names.append(name)
        return [Chapter(self.folder, table, name) for table, name in zip(self.tables, names, strict=True)]


SECTIONS: Registry[Callable[[Report], Section | None]] = Registry("report section", "report_sections")
"""The sections of a report in the order of the page, functions that return a section or None; yours come last."""


def folder_below(folder: Path, run: RunRecord) -> str:
    """Return the folder of a run, relative to the folder of all runs."""
    return run.folder.relative_to(folder).as_posix()


def report_to_markdown(report: Report) -> str:
    """Return the tables of a report as Markdown with aligned columns, for a terminal."""
    return "\n".join(text for section in report.sections for text in _markdown(section))


def _markdown(section: Section) -> list[str]:
    own = [section.markdown] if section.markdown else []
    return own + [text for part in section.parts for text in _markdown(part)]
