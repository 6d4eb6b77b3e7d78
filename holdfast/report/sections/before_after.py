"""Before → after for every criterion, then the extent of the gains and their cost."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.report.before_after import SCORES, Gains, by_criterion, gains_to_csv, make_gains
from holdfast.report.report import Report
from holdfast.report.section import File, Section
from holdfast.report.words import plain_table

__all__ = ["before_after"]

NOTE = "Scores of the source, then of the adapted network, on the same clips; mean over the seeds."
PUBLISHED_NOTE = " Published: for the same network, score and number of clips, with the epoch chosen by labels."
COST_NOTE = (
    "Gains over the criteria of one suite, and the number of criteria that improved. Time per clip includes adaptation "
    "and prediction; the peak is that of the whole process. Best − last: gain in accuracy from choosing the epoch by "
    "labels, in points."
)


def before_after(report: Report) -> Section | None:
    """Return the gains of recipes over the source, for criteria of DHAuDS and offline sets."""
    gains = make_gains(report.tables)
    if not gains:
        return None
    parts = [
        _criteria([entry for entry in gains if (entry.title, entry.score) == (title, score)])
        for title in dict.fromkeys(entry.title for entry in gains)
        for score in dict.fromkeys(entry.score for entry in gains if entry.title == title)
    ]
    file = File("before-after.csv", "CSV", gains_to_csv(gains))
    cost = Section("Extent and cost", _cost(gains), files=[file], files_note="All gains as")
    return Section("Before → after", anchor="before-after", parts=[*parts, cost])


def _criteria(gains: Sequence[Gains]) -> Section:
    """Return the gains of one title and score: a line for each criterion, a column for each recipe."""
    recipes = [entry.recipe for entry in gains]
    rows = [[name, *(words[recipe] for recipe in recipes)] for name, words in by_criterion(gains).items()]
    beside = any(row.published is not None for entry in gains for row in entry.rows)
    note = NOTE + (PUBLISHED_NOTE if beside else "")
    return Section(f"{gains[0].title}: {SCORES[gains[0].score]}", plain_table(["criterion", *recipes], rows, note))


def _cost(gains: Sequence[Gains]) -> str:
    titles = ["suite, model, protocol", "recipe", "score", "improved", "least gain", "largest", "mean"]
    titles += ["ms per clip", "peak MiB", "best − last (points)"]
    rows = [
        [
            *(entry.title, entry.recipe, SCORES[entry.score]),
            f"{entry.improved} of {len(entry.rows)}",
            *(f"{gain:+.4f}" for gain in entry.extent),
            f"{entry.milliseconds_per_clip:.1f}",
            "–" if entry.peak_mib is None else f"{entry.peak_mib:,.0f}",
            "–" if entry.oracle_gap is None else f"{entry.oracle_gap:+.2f}",
        ]
        for entry in gains
    ]
    return plain_table(titles, rows, COST_NOTE)
