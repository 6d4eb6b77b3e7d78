"""Errors of estimated accuracies, and coverage and width of their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from holdfast.display.cells import Cell, WordTable, printed
from holdfast.report.metrics import (
    estimate_error,
    estimate_floor,
    estimated_gain,
    interval_coverage,
    interval_width,
    unknown_share,
)
from holdfast.report.published import Number, beside, published_on, withheld
from holdfast.report.runs import Rows
from holdfast.report.scores import mean_or_nan
from holdfast.report.tables import Line, Table


def estimators_of(table: Table) -> list[str]:
    """Return the estimators of all recipes, in order of appearance."""
    return list(dict.fromkeys(name for run in table.runs for name in run.rows.estimates))


def error_table(table: Table) -> WordTable | None:
    """Return the mean absolute error of every estimator for every recipe; None without estimators."""
    names = estimators_of(table)
    watched = [line for line in table.lines if any(run.rows.estimates for run in line.runs)]
    if not watched:
        return None
    stream = table.manifest.stream.label
    known = {name: published_on(stream, table.runs, f"mae:{name}") for name in names}
    rows = []
    for line in watched:
        errors = [
            spread([100 * error for error in by_seed(line, name, estimate_error)], known[name].get(line.recipe.label))
            for name in names
        ]
        rows.append([line.label, *errors, printed(100 * mean_or_nan([estimate_floor(run.rows) for run in line.runs]))])
    adapting = [line for line in watched if not line.is_source]
    if len(adapting) > 1:
        means = [[mean_or_nan(by_seed(line, name, estimate_error)) for line in adapting] for name in names]
        rows.append(["average, without the source", *(printed(100 * fmean(errors)) for errors in means), ""])
    note = (
        "Mean absolute error against the accuracy of each batch, in points, lower is better; mean ± standard deviation "
        "over the seeds. The floor is the error of an estimator that knows the accuracy of every domain: the sampling "
        "error of a batch."
    )
    missing = [reason for name in names for reason in withheld(table.runs, f"mae:{name}", stream)]
    note += beside(any(known.values()), missing)
    return WordTable("Accuracy estimated without labels", ["recipe", *names, "floor"], rows, note)


def option_table(table: Table) -> WordTable | None:
    """Return the error over each option that varies between estimators of one name (AETTA, Figure 5); None without.

    The value of an estimator that leaves the option at its default stands in the same row.
    """
    rows = []
    adapting = [line for line in table.lines if not line.is_source] or list(table.lines)
    for name, option, labels in _varied(table.runs[0].manifest.recipe.estimators):
        for value, label in sorted(labels.items(), key=lambda entry: entry[0]):
            errors = [mean_or_nan(by_seed(line, label, estimate_error)) for line in adapting]
            average = printed(100 * mean_or_nan(errors))
            rows.append([name, option, f"{value:g}", *(printed(100 * error) for error in errors), average])
    note = "Mean absolute error in points, everything else equal; the last column is the average over the recipes."
    titles = ["estimator", "option", "value", *(line.label for line in adapting), "average"]
    return WordTable("Options of estimators", titles, rows, note) if rows else None


def _varied(estimators: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[float, str]]]:
    """Yield name, option and label by value of estimators that differ from the first of their name in one number."""
    named = {label: {"name": label, **entry} for label, entry in estimators.items()}
    first = {entry["name"]: label for label, entry in reversed(named.items())}
    for name, usual in first.items():
        by_option: dict[str, dict[float, str]] = {}
        for label, entry in named.items():
            changed = [key for key in entry if entry["name"] == name and entry[key] != named[usual].get(key)]
            if len(changed) == 1 and isinstance(named[usual].get(changed[0]), (int, float)):
                (option,) = changed
                by_option.setdefault(option, {named[usual][option]: usual})[entry[option]] = label
        yield from ((name, option, labels) for option, labels in by_option.items())


def interval_table(table: Table) -> WordTable | None:
    """Return coverage, width, gain and the share of unknown estimates; None if nothing is unknown or has intervals."""
    rows = []
    for line in table.lines:
        for name in estimators_of(table):
            unknown = mean_or_nan(by_seed(line, name, unknown_share))
            covered, width = (mean_or_nan(by_seed(line, name, of)) for of in (interval_coverage, interval_width))
            if unknown > 0 or not math.isnan(covered):
                gain = spread([100 * share for share in by_seed(line, name, estimated_gain)], form="+.1f")
                rows.append([line.label, name, *(printed(100 * share) for share in (unknown, covered, width)), gain])
    note = (
        "Unknown: share of batches without an estimate. Coverage: share of intervals that hold the accuracy of their "
        "batch. Width: mean width of the intervals. Gain: mean estimated gain over the source."
    )
    columns = ["recipe", "estimator", "unknown (%)", "coverage (%)", "width (points)", "gain (points)"]
    return WordTable("Unknown estimates and intervals", columns, rows, note) if rows else None


def by_seed(line: Line, name: str, measure: Callable[[Rows], Mapping[str, float]]) -> list[float]:
    """Return a measure of one estimator for each seed that has it."""
    measured = [measure(run.rows).get(name, math.nan) for run in line.runs]
    return [value for value in measured if not math.isnan(value)]


def spread(values: Sequence[float], known: Number | None = None, form: str = ".1f") -> str:
    """Return mean ± standard deviation over seeds, with the published number, as every table prints it.

    >>> spread([4.0, 6.0], Number(4.8, 0.3)), spread([4.0], form="+.1f"), spread([])
    ('5.0 ± 1.4 (4.8 ± 0.3)', '+4.0', '–')
    """
    interval = stdev(values) if len(values) > 1 else None
    return Cell(mean_or_nan(values), interval, note="" if known is None else known.text(form), form=form).text
