"""Figures inside a notebook: the charts of a report, estimates of steps, and curves of any numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from holdfast.records import Estimate, Step
from holdfast.registry import nearest
from holdfast.report.estimate_plots import estimate_curves, estimates_over_time
from holdfast.report.figures import Figure, axis, known, layout, trace
from holdfast.report.make import make_report
from holdfast.report.plots import against_cost, over_time
from holdfast.report.report import Report
from holdfast.report.runs import RunRecord
from holdfast.report.tables import Table, make_tables

Kind = Literal["curves", "estimates", "cost"]
OF_TABLES: Mapping[str, Callable[[Table], Figure]] = {
    "curves": over_time,
    "estimates": estimates_over_time,
    "cost": against_cost,
}


def plot(thing: Any, kind: Kind = "curves") -> go.Figure:
    """Return a Plotly figure, which a notebook shows inline.

    A folder of runs, a report, a table or runs: the score along the stream ("curves"), estimates beside the truth
    ("estimates"), or the score against the cost ("cost"), of the first table. Steps: their estimates, batch by batch. A
    mapping from names to numbers: one curve each. A diagnosis: what a step costs. A recommendation: gain against cost.

    Args:
        thing: a folder of runs, report, table, runs, steps, mapping, diagnosis or recommendation.
        kind: "curves", "estimates" or "cost", for runs.

    >>> [curve.name for curve in plot({"source": [50, 60], "tent": [70, 75]}).data]
    ['source', 'tent']
    """
    return go.Figure({**_figure(thing, kind)})


def _figure(thing: Any, kind: Kind) -> Figure:
    if hasattr(thing, "figure"):
        own: Figure = thing.figure()
        return own
    if isinstance(thing, Mapping):
        return _curves(thing)
    table = _table(thing)
    if table is None:
        return _of_steps(thing)
    if kind not in OF_TABLES:
        raise ValueError(f"unknown kind of figure {kind!r}; {nearest(kind, OF_TABLES)}")
    if kind == "estimates" and not any(run.rows.estimates for run in table.runs):
        raise ValueError("no run of this table has an estimate; name estimators in the suite to plot them")
    return OF_TABLES[kind](table)


def _table(thing: Any) -> Table | None:
    """Return the first table of what can be made into tables; None for anything else."""
    if isinstance(thing, (str, Path)):
        thing = make_report(thing)
    if isinstance(thing, RunRecord):
        thing = [thing]
    tables = thing.tables if isinstance(thing, Report) else [thing] if isinstance(thing, Table) else []
    if isinstance(thing, (list, tuple)) and thing and all(isinstance(one, RunRecord) for one in thing):
        tables = make_tables(thing)
    if isinstance(thing, Report) and not tables:
        raise ValueError(f"no run of {thing.folder} is finished, so there is nothing to plot yet; run its suite again")
    return tables[0] if tables else None


def _curves(numbers: Mapping[str, Sequence[float]]) -> Figure:
    lines = [
        trace(name, list(range(1, len(values) + 1)), known(np.asarray(values, float)))
        for name, values in numbers.items()
    ]
    return {"data": lines, "layout": layout(400, axis("batch"), axis(""))}


def _of_steps(steps: Any) -> Figure:
    """Return the estimates of steps with their intervals, batch by batch; resets are marked."""
    if not (isinstance(steps, (list, tuple)) and steps and all(isinstance(step, Step) for step in steps)):
        raise ValueError(
            f"cannot plot {type(steps).__name__}; pass a folder of runs, a report, a table, a list of steps, a mapping "
            "from names to numbers, a diagnosis or a recommendation"
        )
    drawn: list[Figure] = []
    batches = list(range(1, len(steps) + 1))
    for number, name in enumerate(dict.fromkeys(name for step in steps for name in step.estimates)):
        estimates = [step.estimates.get(name, Estimate(float("nan"))) for step in steps]
        columns = [[getattr(estimate, part) for estimate in estimates] for part in ("value", "low", "high")]
        drawn += estimate_curves(name, number, batches, *map(_percent, columns))
    resets = [(batch, step.recovered) for batch, step in zip(batches, steps, strict=True) if step.recovered]
    if resets:
        at, reasons = zip(*resets, strict=True)
        marks = {"symbol": "triangle-up", "size": 9}
        drawn.append(trace("reset", list(at), [0] * len(at), "markers", text=list(reasons), marker=marks))
    if not drawn:
        raise ValueError("these steps have no estimates to plot; adapt with estimator=…, or use holdfast.guard")
    return {"data": drawn, "layout": layout(400, axis("batch"), axis("estimated accuracy (%)", range=[0, 105]))}


def _percent(shares: Sequence[float | None]) -> list[float | None]:
    return known(100 * np.array([np.nan if share is None else share for share in shares]), 2)
