"""How fast methods adapt from the source: accuracy since the last start, and the batches up to its maximum."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from holdfast.display.cells import WordTable, printed
from holdfast.report.figures import Figure, axis, known, layout, trace
from holdfast.report.plots import stroke
from holdfast.report.runs import Rows
from holdfast.report.tables import Line, Table

SMOOTHED = 5  # batches of the moving mean in which the maximum is sought


def normalised_over_time(table: Table) -> Figure | None:
    """Return the accuracy since the start of each domain over its maximum (RDumb, Figure 5a); None without starts.

    One curve for each recipe: a moving mean over five batches, averaged over domains and seeds.
    """
    if not starts_anew(table):
        return None
    size = int(table.runs[0].rows.size.max())
    curves = []
    for line in table.lines:
        shares = [course / course.max() for course in courses(line) if course.max() > 0]
        if shares:
            mean = np.mean([share[: min(map(len, shares))] for share in shares], axis=0)
            ends = [size * (batch + 1) for batch in range(len(mean))]
            style = stroke(table, line)
            curves.append(trace(escape(line.label), ends, known(100 * mean), hovertemplate="%{y:.1f} %", line=style))
    axes = axis("samples since the start"), axis("accuracy, % of its maximum")
    return {"data": curves, "layout": layout(360, *axes, margin={"t": 16})}


def speed_table(table: Table) -> WordTable | None:
    """Return the number of batches to the maximum, and the accuracy there and at the end; None without starts."""
    if not starts_anew(table):
        return None
    rows = []
    for line in table.lines:
        of_recipe = list(courses(line))
        steps = [int(course.argmax()) + 1 for course in of_recipe]
        best, last = (fmean(values) for values in ([c.max() for c in of_recipe], [c[-1] for c in of_recipe]))
        rows.append([line.label, printed(fmean(steps)), str(max(steps)), printed(100 * best), printed(100 * last)])
    note = (
        f"Means over domains and seeds, each of which starts from the source; a moving mean over {SMOOTHED} batches of "
        f"{int(table.runs[0].rows.size.max())}."
    )
    titles = ["recipe", "batches to the maximum", "latest", "maximum (%)", "at the end (%)"]
    return WordTable("How fast recipes adapt", titles, rows, note)


def starts_anew(table: Table) -> bool:
    """Return whether every domain of the stream starts from the source."""
    return table.manifest.stream.name == "reset_each_shift"


def courses(line: Line) -> Iterator[NDArray[np.float64]]:
    """Yield the moving accuracy along each domain of each run, batch by batch."""
    for run in line.runs:
        for first, last in _stretches(run.rows):
            yield moving_accuracy(run.rows.accuracy[first:last])


def moving_accuracy(accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean accuracy of each batch and the four before it, as far as there are so many.

    >>> moving_accuracy(np.array([0.0, 1.0, 0.5])).tolist()
    [0.0, 0.5, 0.5]
    """
    sums = np.concatenate([[0.0], accuracy.cumsum()])
    stops = np.arange(1, len(accuracy) + 1)
    starts = np.maximum(0, stops - SMOOTHED)
    means: NDArray[np.float64] = np.round((sums[stops] - sums[starts]) / (stops - starts), 9)  # equal means are equal
    return means


def _stretches(rows: Rows) -> list[tuple[int, int]]:
    """Return the first batch of each domain and the one after its last."""
    domains = np.empty(len(rows), np.int64)
    domains[rows.pair_batch] = rows.pair_domain  # batches do not cross domains
    starts = [0, *(np.flatnonzero(np.diff(domains)) + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(rows)], strict=True))
