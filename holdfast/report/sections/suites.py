"""The suites as YAML, at the end of a report."""

from __future__ import annotations

from html import escape

from holdfast.report.report import Report
from holdfast.report.section import File, Section
from holdfast.report.suite_text import suite_text
from holdfast.report.words import slug

__all__ = ["suites"]


def suites(report: Report) -> Section | None:
    """Return the YAML of every suite; runs of versions that kept no jobs have none."""
    asked: dict[str, list[dict[str, object]]] = {}
    for run in report.runs:
        if run.manifest.asked:
            asked.setdefault(run.manifest.suite, []).append(run.manifest.asked)
    if not asked:
        return None
    note = "<p class='note'>As the runs were asked for; <code>holdfast bench FILE.yaml</code> runs them again.</p>"
    return Section("Suites", note, "suites", parts=[_suite(name, suite_text(jobs)) for name, jobs in asked.items()])


def _suite(name: str, text: str) -> Section:
    fold = f"<details><summary>{escape(name)}.yaml</summary><pre><code>{escape(text)}</code></pre></details>"
    return Section("", fold, files=[File(f"suite-{slug(name)}.yaml", "YAML", text)], files_note="This suite as")
