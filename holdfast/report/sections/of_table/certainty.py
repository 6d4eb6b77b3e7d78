"""Confidence and entropy along the stream: how certain predictions are, without labels."""

from __future__ import annotations

from holdfast.report import plots
from holdfast.report.report import Chapter
from holdfast.report.section import Section, chart

__all__ = ["certainty"]


def certainty(chapter: Chapter) -> Section | None:
    """Return the mean confidence and the mean entropy of the predictions of every recipe."""
    confidence, entropy = plots.confidence_over_time(chapter.table), plots.entropy_over_time(chapter.table)
    if confidence is None or entropy is None:
        return None
    window = f"mean over the last {plots.window_samples(chapter.table):,} samples, averaged over the seeds."
    charts = [
        chart(confidence, f"Largest probability, {window} A collapse shows as confidence that rises to the end."),
        chart(entropy, f"Entropy of the probabilities, {window} A collapse shows as entropy that falls to 0."),
    ]
    return Section("Confidence and entropy over time", f"<div class='pairs'>{''.join(charts)}</div>")
