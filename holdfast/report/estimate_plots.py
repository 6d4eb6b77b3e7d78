"""Figures of estimates against the truth: over time, batch by batch, and in bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.report.estimates import estimators_of
from holdfast.report.figures import COLOURS, GREY, HOVER, POINTS, Figure, axis, known, layout, rule, trace
from holdfast.report.metrics import mean_of_known
from holdfast.report.plots import collapse_shapes
from holdfast.report.runs import Rows
from holdfast.report.tables import Line, Table

Gapped: TypeAlias = Sequence[float | None]

BINS = 10
BAND_OPACITY = 0.18
ESTIMATED = "estimated %{x:.1f} %, true %{y:.1f} %"
AXIS: Figure = {"range": [-3, 103], "dtick": 20}


def estimates_over_time(table: Table) -> Figure:
    """Return estimate and truth along the stream for one recipe at a time, with intervals and resets."""
    watched = [line for line in table.lines if line.runs[0].rows.estimates]
    watched.sort(key=lambda line: line.is_source)  # recipes that adapt come first
    length = max(int(line.runs[0].rows.ends[-1]) for line in watched)
    axes = axis("samples seen", range=[0, length]), axis("accuracy (%)", range=[0, 107], dtick=20)
    laid_out = layout(420, *axes, margin={"t": 48}, shapes=collapse_shapes(table))
    groups = [one_recipe(table, line, visible=line is watched[0]) for line in watched]
    return one_at_a_time([line.label for line in watched], groups, laid_out)


def one_at_a_time(labels: Sequence[str], groups: Sequence[Sequence[Figure]], laid_out: Figure) -> Figure:
    """Return a figure that shows one group of traces, with a menu to choose another."""
    owners = [number for number, group in enumerate(groups) for _ in group]
    choices = [
        {"label": escape(label), "method": "restyle", "args": [{"visible": [owner == one for owner in owners]}]}
        for one, label in enumerate(labels)
    ]
    above = {"x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "pad": {"b": 4}}
    menu = {"updatemenus": [{"buttons": choices, **above}]} if len(labels) > 1 else {}
    return {"data": [trace for group in groups for trace in group], "layout": {**laid_out, **menu}}


def against_confidence(table: Table) -> Figure | None:
    """Return correct and consistent predictions over the confidence of a batch (AETTA, Figure 3); None without `pdd`.

    Batches are sorted by their mean confidence into ten bins of equal size. Predictions that are consistent under
    dropout are the estimate `pdd`; `aetta` weights them by how few classes are predicted.
    """
    watched = [line for line in table.lines if all("pdd" in run.rows.estimates for run in line.runs)]
    watched.sort(key=lambda line: line.is_source)
    groups = [_by_confidence(line, visible=line is watched[0]) for line in watched]
    if not any(groups):
        return None
    laid_out = square("confidence (%)", "share of predictions (%)") | {"margin": {"t": 48}}
    return one_at_a_time([line.label for line in watched], groups, laid_out)


def _by_confidence(line: Line, *, visible: bool) -> list[Figure]:
    confidence = np.concatenate([run.rows.confidence for run in line.runs])
    order = np.argsort(confidence, kind="stable")
    bins = [chosen for chosen in np.array_split(order, BINS) if len(chosen)]
    curves = {"correct": np.concatenate([run.rows.accuracy for run in line.runs])}
    for name, words in (("pdd", "consistent (pdd)"), ("aetta", "weighted (aetta)")):
        if all(name in run.rows.estimates for run in line.runs):
            curves[words] = np.concatenate([run.rows.estimates[name].value for run in line.runs])
    x = _percent(confidence, bins)
    return [
        trace(
            name,
            x,
            _percent(values, bins),
            "lines+markers",
            visible=visible,
            hovertemplate=HOVER,
            line={"width": 2, "color": GREY if name == "correct" else COLOURS[number % len(COLOURS)]},
        )
        for number, (name, values) in enumerate(curves.items())
    ]


def one_recipe(table: Table, line: Line, *, visible: bool) -> list[Figure]:
    """Return the truth, each estimate with its interval, and the resets of a recipe's first seed."""
    rows = line.runs[0].rows
    bins = np.array_split(np.arange(len(rows)), min(len(rows), POINTS))
    ends = [int(rows.ends[chosen[-1]]) for chosen in bins]
    drawn: list[Figure] = []
    for number, name in enumerate(estimators_of(table)):
        if name not in rows.estimates:
            continue
        estimate = rows.estimates[name]
        value, low, high = (_percent(values, bins) for values in (estimate.value, estimate.low, estimate.high))
        drawn += estimate_curves(name, number, ends, value, low, high, visible=visible)
    look = {"width": 1.5, "color": GREY, "dash": "dot"}
    drawn.append(trace("truth", ends, _percent(rows.accuracy, bins), visible=visible, hovertemplate=HOVER, line=look))
    marks = [(int(end), reason) for end, reason in zip(rows.ends, rows.recovered, strict=True) if reason is not None]
    if marks:
        resets = trace(
            "resets",
            [end for end, _ in marks],
            [104] * len(marks),
            "markers",
            text=[escape(reason) for _, reason in marks],
            hovertemplate="reset: %{text}<extra></extra>",
            marker={"symbol": "triangle-down", "size": 8, "color": GREY},
            visible=visible,
        )
        drawn.append(resets)
    return drawn


def estimate_curves(
    name: str, number: int, x: Sequence[int], value: Gapped, low: Gapped, high: Gapped, **style: Any
) -> list[Figure]:
    """Return an estimate in the colour of its number, before it the band of its interval if there is one."""
    colour = COLOURS[number % len(COLOURS)]
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    look = {"name": f"{name} interval", "legendgroup": name, "fillcolor": f"rgba({red},{green},{blue},{BAND_OPACITY})"}
    bands = [{**band(x, low, high), **look, **style}] if any(end is not None for end in low) else []
    line = {"width": 2, "color": colour}
    return [*bands, trace(name, x, value, group=name, line=line, hovertemplate=HOVER, **style)]


def band(positions: Sequence[int], low: Gapped, high: Gapped) -> Figure:
    """Return the area between two curves, one piece for each stretch in which both are known.

    >>> band([1, 2, 3], [10.0, None, 30.0], [20.0, None, 40.0])["y"]
    [10.0, 20.0, None, 30.0, 40.0]
    """
    x: list[int | None] = []
    y: list[float | None] = []
    indices = range(len(positions))
    for has_both, stretch in groupby(indices, lambda index: low[index] is not None and high[index] is not None):
        there = list(stretch)
        if has_both:
            x += [None] * bool(x) + [positions[index] for index in (*there, *reversed(there))]
            y += [None] * bool(y) + [low[index] for index in there] + [high[index] for index in reversed(there)]
    hidden = {"showlegend": False, "hoverinfo": "skip", "line": {"width": 0}}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "fill": "toself", **hidden}


def scatter(table: Table) -> Figure:
    """Return one dot for each batch and estimator: estimated and measured accuracy."""
    dots = []
    for number, name in enumerate(estimators_of(table)):
        estimate, truth = pairs(table, name)
        chosen = np.unique(np.linspace(0, max(len(estimate) - 1, 0), POINTS).astype(np.int64))[: len(estimate)]
        x, y = (np.round(100 * shares[chosen], 2).tolist() for shares in (estimate, truth))
        marker = {"size": 5, "opacity": 0.5, "color": COLOURS[number % len(COLOURS)]}
        dots.append(trace(name, x, y, "markers", marker=marker, hovertemplate=ESTIMATED))
    return {"data": dots, "layout": square("estimated accuracy (%)", "true accuracy (%)")}


def calibration(table: Table) -> Figure:
    """Return the mean measured accuracy over the mean estimate in bins of ten points."""
    curves = []
    for number, name in enumerate(estimators_of(table)):
        estimate, truth = pairs(table, name)
        bins = np.clip((BINS * estimate).astype(np.int64), 0, BINS - 1)
        filled = [bins == index for index in np.unique(bins)]
        colour = COLOURS[number % len(COLOURS)]
        binned = trace(
            name,
            _percent(estimate, filled),
            _percent(truth, filled),
            "lines+markers",
            text=[str(int(chosen.sum())) for chosen in filled],
            line={"width": 1, "color": colour},
            marker={"size": [6 + 14 * float(chosen.mean()) for chosen in filled], "color": colour},
            hovertemplate=f"{ESTIMATED}, %{{text}} batches",
        )
        curves.append(binned)
    return {"data": curves, "layout": square("estimated accuracy (%)", "true accuracy (%)")}


def pairs(table: Table, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the known estimates of all runs of a table, and the measured accuracies."""
    rows: list[Rows] = [run.rows for run in table.runs if name in run.rows.estimates]
    estimate = np.concatenate([one.estimates[name].value for one in rows])
    truth = np.concatenate([one.accuracy for one in rows])
    known = ~np.isnan(estimate)
    return estimate[known], truth[known]


def square(x_title: str, y_title: str) -> Figure:
    """Return a square layout with the diagonal."""
    axes, diagonal = (AXIS | axis(x_title), AXIS | axis(y_title)), rule(x0=0, y0=0, x1=100, y1=100)
    return layout(420, *axes, hovermode="closest", shapes=[diagonal], margin={"t": 16})


def _percent(shares: NDArray[np.float64], bins: Iterable[NDArray[Any]]) -> list[float | None]:
    """Return the mean of the known shares of each bin, in %."""
    return known(np.array([100 * mean_of_known(shares[chosen]) for chosen in bins]), 2)
