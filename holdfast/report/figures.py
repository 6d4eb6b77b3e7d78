"""Parts of Plotly figures as plain dictionaries; the page sets the colours of text and grid, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Figure = dict[str, Any]

# Mid tones that are visible on white and on black; dashes distinguish recipes of the same colour.
COLOURS = ("#3d7fe0", "#e8762c", "#1f9e74", "#c44f9b", "#8468d6", "#b8921a", "#1fa3ba", "#d64b4b", "#779a2b", "#a26a50")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#8a909a"
HOVER = "%{y:.1f} %"
POINTS = 400  # of a curve


def trace(name: str, x: Sequence[Any], y: Sequence[Any], mode: str = "lines", group: str = "", **more: Any) -> Figure:
    """Return points over x; a group is shown and hidden as one, and its marks are not in the legend."""
    in_group: Figure = {"legendgroup": group} if group else {}
    if group and mode == "markers":
        in_group["showlegend"] = False
    return {"type": "scatter", "mode": mode, "name": name, **in_group, "x": x, "y": y, **more}


def axis(title: str, **more: Any) -> Figure:
    """Return an axis with its title."""
    return {"title": {"text": title, "standoff": 8}, **more}


def layout(height: int, x_axis: Figure, y_axis: Figure, **more: Any) -> Figure:
    """Return the layout of curves that are read together at one x."""
    return {"height": height, "hovermode": "x unified", "xaxis": x_axis, "yaxis": y_axis, **more}


def rule(**ends: Any) -> Figure:
    """Return a thin dotted line between two points of a layout."""
    return {"type": "line", "line": {"width": 1, "dash": "dot", "color": GREY}, **ends}


def recipe_curve(recipe: str, number: int, points: Sequence[tuple[Any, float]], **more: Any) -> Figure:
    """Return the scores of a recipe over some setting, in the colour of its number; the source is grey and dotted."""
    source = recipe == "source"
    style = {"color": GREY if source else COLOURS[number % len(COLOURS)], "dash": "dot" if source else "solid"}
    x, y = [x for x, _ in points], [round(y, 3) for _, y in points]
    return trace(escape(recipe), x, y, "lines+markers", line={**style, "width": 2}, hovertemplate=HOVER, **more)


def recipe_figure(curves: Sequence[Figure], x_axis: Figure, metric: str) -> Figure:
    """Return the curves of several recipes over one setting."""
    return {"data": curves, "layout": layout(340, x_axis, axis(f"{metric} (%)"), showlegend=True, margin={"t": 16})}


def known(values: NDArray[np.float64], digits: int = 3) -> list[float | None]:
    """Return values as JSON; `nan` becomes a gap."""
    return [None if math.isnan(value) else round(value, digits) for value in values.tolist()]
