"""What each recipe consists of, and where each run is kept."""

from __future__ import annotations

from holdfast.report.report import Chapter, place
from holdfast.report.section import Section
from holdfast.report.words import in_words, plain_table

__all__ = ["recipes", "runs"]


def recipes(chapter: Chapter) -> Section:
    """Return method, options, recovery, estimators and citation of each recipe."""
    table = chapter.table
    rows = []
    for line in table.lines:
        recipe = line.recipe
        settings = (recipe.method, recipe.preset, recipe.options, recipe.recovery, recipe.recovery_options)
        rows.append([line.label, recipe.summary, *map(in_words, (*settings, recipe.estimators)), recipe.citation])
    titles = [
        "recipe",
        "what it does",
        "method",
        "preset",
        "options",
        "recovery",
        "recovery options",
        "estimators",
        "citation",
    ]
    return _folded("Recipes", plain_table(titles, rows))


def runs(chapter: Chapter) -> Section:
    """Return every run with the fingerprint of its protocol and its folder."""
    table = chapter.table
    rows = [
        [line.label, str(run.manifest.seed), run.manifest.suite, run.manifest.fingerprint, place(run, chapter.folder)]
        for line in table.lines
        for run in line.runs
    ]
    return _folded(
        "Runs and their fingerprints", plain_table(["recipe", "seed", "suite", "fingerprint", "folder"], rows)
    )


def _folded(title: str, html: str) -> Section:
    return Section("", f"<details><summary>{title}</summary>{html}</details>")
