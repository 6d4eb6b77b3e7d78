"""Tables, charts and a page from the files of runs; no model is run."""

from holdfast.display.cells import Cell, WordTable
from holdfast.display.formats import to_csv, to_html, to_latex, to_markdown, words_to_markdown
from holdfast.report.arena import arena_tables
from holdfast.report.columns import Column, columns_of
from holdfast.report.compare import Comparison, Pair, UnequalProtocolsError, compare
from holdfast.report.estimates import error_table
from holdfast.report.gains import gain_table
from holdfast.report.make import make_report
from holdfast.report.page import write_report
from holdfast.report.plots import against_cost, over_time
from holdfast.report.report import SECTIONS, Report, report_to_markdown
from holdfast.report.runs import DamagedRunError, Manifest, Rows, RunRecord, read_run, read_runs
from holdfast.report.scores import Metric
from holdfast.report.section import File, Section
from holdfast.report.tables import Line, Table, make_tables

__all__ = [
    "SECTIONS",
    "Cell",
    "Column",
    "Comparison",
    "DamagedRunError",
    "File",
    "Line",
    "Manifest",
    "Metric",
    "Pair",
    "Report",
    "Rows",
    "RunRecord",
    "Section",
    "Table",
    "UnequalProtocolsError",
    "WordTable",
    "against_cost",
    "arena_tables",
    "columns_of",
    "compare",
    "error_table",
    "gain_table",
    "make_report",
    "make_tables",
    "over_time",
    "read_run",
    "read_runs",
    "report_to_markdown",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
    "words_to_markdown",
    "write_report",
]
