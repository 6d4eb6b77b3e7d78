"""Make a report: read the runs, compare them in tables, and write down each section."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.report.report import Report
from holdfast.report.report_sections import SECTIONS
from holdfast.report.runs import read_runs
from holdfast.report.scores import Metric
from holdfast.report.tables import make_tables


def make_report(runs_folder: Path | str, metric: Metric = "error") -> Report:
    """Return the report of a folder of runs; everything in it is computed here, once."""
    folder = Path(runs_folder)
    runs = read_runs(folder)
    report = Report(folder, metric, runs, make_tables(runs, metric))
    made = [SECTIONS[name](report) for name in SECTIONS]
    return replace(report, sections=[section for section in made if section is not None])
