"""The sections of one table, in the order of the page: functions of a chapter that return a section, or None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

import numpy as np

from holdfast.display.cells import WordTable
from holdfast.display.formats import to_html
from holdfast.report import estimate_plots, plots
from holdfast.report.estimates import error_table, interval_table, option_table
from holdfast.report.figures import POINTS
from holdfast.report.gains import gain_table
from holdfast.report.order import LEVEL, RESAMPLES
from holdfast.report.report import Chapter, folder_below
from holdfast.report.section import Section, chart, joined, side_by_side, word_section
from holdfast.report.speed import normalised_over_time, speed_table
from holdfast.report.strips import read_strip, strip_to_html
from holdfast.report.tables import RECIPE_FIELDS

IMAGES = "images"
AUDIO = "clips as spectrograms (frequency upwards, to half the sample rate); the player has the first of them"
GAUGE_NOTES = {"domains": "; dashed: number of different domains that the stream has shown so far"}


def score_over_time(chapter: Chapter) -> Section:
    """Return the moving score of every recipe, with domains, resets and collapses marked."""
    table = chapter.table
    note = (
        f"Mean over the last {plots.window_samples(table):,} samples, averaged over the seeds. Click a name to hide "
        "it, double-click to show it alone. A cross marks where a recipe becomes worse than the source and stays so."
    )
    return Section(f"{table.metric.capitalize()} over time", chart(plots.over_time(table), note))


def strip(chapter: Chapter) -> Section | None:
    """Return a few samples along the stream as the model saw them, if the runs kept them."""
    run = chapter.table.runs[0]
    excerpts = read_strip(run)
    if not excerpts:
        return None
    note = (
        f"Consecutive {AUDIO if excerpts[0].audio else IMAGES}, at {len(excerpts)} positions in order of arrival, with "
        f"corruption and severity of the first (seed {run.manifest.seed})."
    )
    html = f"<figure>{strip_to_html(excerpts)}<figcaption>{escape(note)}</figcaption></figure>"
    return Section("What the model saw", html)


def order(chapter: Chapter) -> Section | None:
    """Return each recipe's distance to the best, its interval, and how often it is the best of a resample."""
    table = chapter.table
    if table.standings is None:
        return None
    rows = [
        [
            line.label,
            _points(standing.difference),
            f"{_points(standing.low)} to {_points(standing.high)}",
            f"{100 * standing.first:.0f} %",
            "behind" if line not in table.leading else "best" if len(table.leading) == 1 else "tied for the best",
        ]
        for line, standing in sorted(
            zip(table.lines, table.standings, strict=True), key=lambda ranked: ranked[1].difference
        )
    ]
    note = (
        f"Points behind the best recipe in accuracy, with {100 * LEVEL:.0f} % intervals from a paired bootstrap: "
        f"{RESAMPLES:,} times, seeds and blocks of neighbouring batches are drawn anew, the same for all recipes. "
        "Seeds other than these, and other streams, are not covered."
    )
    titles = ["recipe", "points behind", "interval", "first in", "standing"]
    return _words(WordTable("How sure the order is", titles, rows, note))


def _points(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"  # never -0.0


def certainty(chapter: Chapter) -> Section | None:
    """Return the mean confidence and the mean entropy of the predictions of every recipe."""
    confidence, entropy = plots.confidence_over_time(chapter.table), plots.entropy_over_time(chapter.table)
    if confidence is None or entropy is None:
        return None
    window = f"mean over the last {plots.window_samples(chapter.table):,} samples, averaged over the seeds."
    charts = side_by_side(
        chart(confidence, f"Largest probability, {window} A collapse shows as confidence that rises to the end."),
        chart(entropy, f"Entropy of the probabilities, {window} A collapse shows as entropy that falls to 0."),
    )
    return Section("Confidence and entropy over time", charts)


def epochs(chapter: Chapter) -> Section | None:
    """Return the score after each epoch of an offline run, where labels were used to measure it."""
    table = chapter.table
    figure = plots.over_epochs(table)
    note = "On the draws that were adapted to, measured with labels; the best epoch predicts. Mean over sets and seeds."
    name = table.oracle_score or table.metric.capitalize()
    return Section(f"{name} over epochs", chart(figure, note)) if figure else None


def severities_over_time(chapter: Chapter) -> Section | None:
    """Return both severities over time, where the stream is a walk."""
    table = chapter.table
    figure = plots.severities(table)
    note = (
        "One corruption fades out while the next fades in, along the path on which the accuracy stays near its target "
        f"(seed {table.manifest.seed})."
    )
    return Section("Severities over time", chart(figure, note)) if figure else None


def gauges(chapter: Chapter) -> Section | None:
    """Return a chart for each number that a method reports about itself; those that stay 0 share one sentence."""
    table = chapter.table
    names = dict.fromkeys(gauge for run in table.runs for gauge in run.rows.gauges)
    moving = [name for name in names if any(np.any(run.rows.gauges.get(name, 0)) for run in table.runs)]
    parts = []
    for name in moving:
        note = f"As reported by the methods, averaged over the seeds{GAUGE_NOTES.get(name, '')}."
        parts.append(Section(f"{name.capitalize()} over time", chart(plots.gauge_over_time(table, name), note)))
    zero = [name for name in names if name not in moving]
    if zero:
        parts.append(Section("Gauges that stay 0", f"<p>{escape(', '.join(zero))}</p>"))
    return joined(parts)


def cost(chapter: Chapter) -> Section:
    """Return the mean of every recipe over its passes per sample."""
    table = chapter.table
    note = "Mean against cost; the dotted line is the source, which does not adapt."
    return Section(f"{table.metric.capitalize()} against cost", chart(plots.against_cost(table), note))


def recovery_gains(chapter: Chapter) -> Section | None:
    """Return the gains of recoveries, where a method ran with several."""
    gains = gain_table(chapter.table)
    return word_section(gains, f"{chapter.name}-gains") if gains else None


def estimates(chapter: Chapter) -> Section | None:
    """Return errors, intervals, course, scatter and calibration of the estimates, where there are any."""
    table = chapter.table
    errors = error_table(table)
    if errors is None:
        return None
    intervals, varied = interval_table(table), option_table(table)
    shade = ", the shade is the scripted collapse" if "collapse" in table.protocol else ""
    course = chart(
        estimate_plots.estimates_over_time(table),
        f"One recipe at a time, seed {table.manifest.seed}; the band is the interval, if there is one, "
        f"triangles are resets{shade}.",
    )
    dots = chart(estimate_plots.scatter(table), f"All recipes and seeds, at most {POINTS} batches of each estimator.")
    bins = chart(estimate_plots.calibration(table), "Means in bins of ten points; a larger dot holds more batches.")
    parts = [
        word_section(errors, f"{chapter.name}-estimates"),
        *([_words(intervals)] if intervals else []),
        *([word_section(varied, f"{chapter.name}-estimator-options")] if varied else []),
        Section("Estimate and truth over time", course),
        Section("Estimate against truth", side_by_side(dots, bins)),
    ]
    confidence = estimate_plots.against_confidence(table)
    if confidence is not None:
        note = (
            "Batches in ten bins of equal size by their mean confidence, one recipe at a time. Consistent predictions "
            "do not change under dropout; where they leave the correct ones, disagreement alone misses a collapse."
        )
        parts.append(Section("Correct and consistent predictions against confidence", chart(confidence, note)))
    return joined(parts)


def speed(chapter: Chapter) -> Section | None:
    """Return how fast recipes adapt, where every domain starts from the source."""
    figure, steps = normalised_over_time(chapter.table), speed_table(chapter.table)
    if figure is None or steps is None:
        return None
    note = "Accuracy as a share of its maximum in each domain, averaged over domains and seeds."
    parts = [word_section(steps, f"{chapter.name}-speed")]
    return Section("Accuracy since the start of a domain", chart(figure, note), parts=parts)


def protocol(chapter: Chapter) -> Section:
    """Return every field of the protocol; a field that recipes set themselves with all its values."""
    table = chapter.table
    own = {
        field: ", ".join(dict.fromkeys(in_words(run.manifest.protocol[field]) for run in table.runs))
        for field in RECIPE_FIELDS
        if all(field in run.manifest.protocol for run in table.runs)
    }
    items = (
        f"<dt>{escape(field.replace('_', ' '))}</dt><dd>{escape(in_words(value))}</dd>"
        for field, value in {**table.protocol, **own}.items()
    )
    return Section("Protocol", f"<dl>{''.join(items)}</dl>")


def in_words(value: object) -> str:
    """Return a setting as readable text.

    >>> in_words({"lr": 0.01, "views": 2}), in_words(None)
    ('lr 0.01, views 2', 'none')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {in_words(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(in_words, value)) or "none"
    return "none" if value is None else str(value)


def recipes(chapter: Chapter) -> Section:
    """Return method, options, recovery, estimators and citation of each recipe."""
    rows = []
    for line in chapter.table.lines:
        recipe = line.recipe
        settings = (recipe.method, recipe.preset, recipe.options, recipe.recovery, recipe.recovery_options)
        rows.append([line.label, recipe.summary, *map(in_words, (*settings, recipe.estimators)), recipe.citation])
    titles = ["recipe", "what it does", "method", "preset", "options", "recovery", "recovery options"]
    return _folded(WordTable("Recipes", [*titles, "estimators", "citation"], rows))


def runs(chapter: Chapter) -> Section:
    """Return every run with the fingerprint of its protocol and its folder."""
    rows = []
    for line in chapter.table.lines:
        for run in line.runs:
            manifest = run.manifest
            folder = folder_below(chapter.folder, run)
            rows.append([line.label, str(manifest.seed), manifest.suite, manifest.fingerprint, folder])
    titles = ["recipe", "seed", "suite", "fingerprint", "folder"]
    return _folded(WordTable("Runs and their fingerprints", titles, rows))


def _words(table: WordTable) -> Section:
    return Section(table.title, to_html(table))


def _folded(table: WordTable) -> Section:
    return Section("", f"<details><summary>{table.title}</summary>{to_html(table)}</details>")


TABLE_SECTIONS: tuple[Callable[[Chapter], Section | None], ...] = (
    score_over_time,
    strip,
    order,
    certainty,
    epochs,
    severities_over_time,
    speed,
    gauges,
    cost,
    recovery_gains,
    estimates,
    protocol,
    recipes,
    runs,
)
