"""Draw small charts as SVG, for docs/figures.py and docs/curves.py.

A chart is 420 units wide with letters of 12 units, so that it can be read on a screen of 400 pixels. Colours are
classes: the style inside the image follows the colour scheme of the system, and docs/site.css that of the site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

WIDTH = 420
LIGHT = {
    "ink": "#24292f",
    "quiet": "#59636e",
    "grid": "#c8ced5",
    "good": "#00796b",
    "bad": "#c62828",
    "other": "#8250df",
}
DARK = {
    "ink": "#e6edf3",
    "quiet": "#a2abb5",
    "grid": "#4a525c",
    "good": "#4db6ac",
    "bad": "#ff8a80",
    "other": "#c297ff",
}

Point = tuple[float, float]


def rules(selector: str, colours: dict[str, str]) -> str:
    """Return the style sheet's rule that gives the colours their values."""
    return f"{selector}{{{';'.join(f'--figure-{name}:{value}' for name, value in colours.items())}}}"


def style() -> str:
    """Return the style of an image: the colours by the scheme of the system, and what each class draws with them."""
    return "".join(
        [
            rules("svg.figure", LIGHT),
            f"@media(prefers-color-scheme:dark){{{rules('svg.figure', DARK)}}}",
            "svg.figure path,svg.figure polyline{fill:none}",
            "svg.figure text{font:12px system-ui,sans-serif}",
            *(f"svg.figure .{name}{{stroke:var(--figure-{name})}}" for name in LIGHT),
            *(f"svg.figure text.{name}{{stroke:none;fill:var(--figure-{name})}}" for name in LIGHT),
            "svg.figure text.strong{font-weight:600;fill:var(--figure-ink)}",
        ]
    )


def image(height: float, described: str, parts: Iterable[str]) -> str:
    """Return a whole image with its alternative text."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {WIDTH} {height:g}" role="img">'
    return "\n".join([head, f"<title>{escape(described)}</title>", f"<style>{style()}</style>", *parts, "</svg>", ""])


def scale(values: Point, pixels: Point) -> Callable[[float], float]:
    """Return the function that maps a range of values to a range of pixels.

    >>> scale((0, 100), (10, 20))(50)
    15.0
    """
    (low, high), (start, end) = values, pixels
    return lambda value: start + (value - low) * (end - start) / (high - low)


def words(at: Point, text: str, name: str = "quiet", *, anchor: str = "middle") -> str:
    """Return a text, anchored in its middle, at its start or at its end."""
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" class="{name}" text-anchor="{anchor}">{escape(text)}</text>'


def dots(points: Iterable[Point], name: str, *, size: float = 4, opacity: float = 0.75) -> str:
    """Return one dot for each point."""
    marks = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
    drawn = f'stroke-width="{size:g}" stroke-linecap="round" stroke-opacity="{opacity:g}"'
    return f'<path class="{name}" {drawn} d="{marks}"/>'


def line(points: Iterable[Point], name: str, *, width: float = 2, dash: str = "") -> str:
    """Return a line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline class="{name}" stroke-width="{width:g}"{dashed} points="{path}"/>'


def signed(value: float, digits: int = 0) -> str:
    """Return a number with its sign.

    >>> signed(-3.34, 1), signed(0.2)
    ('−3.3', '0')
    """
    text = f"{value:+.{digits}f}"
    return f"{0:.{digits}f}" if float(text) == 0 else text.replace("-", "−")


def bottom_axis(
    ticks: Sequence[float], position: Callable[[float], float], bottom: float, spans: Iterable[Point]
) -> list[str]:
    """Return vertical lines of the grid over spans of heights, with values below, signed if some are negative."""
    grid = [
        line([(position(tick), top), (position(tick), end)], "grid", width=1) for tick in ticks for top, end in spans
    ]
    shown = [signed(tick) if min(ticks) < 0 else f"{tick:g}" for tick in ticks]
    return [*grid, *(words((position(tick), bottom + 15), text) for tick, text in zip(ticks, shown, strict=True))]


def left_axis(ticks: Sequence[float], position: Callable[[float], float], left: float, right: float) -> list[str]:
    """Return horizontal lines of the grid with their values beside them."""
    grid = [line([(left, position(tick)), (right, position(tick))], "grid", width=1) for tick in ticks]
    return [
        *grid,
        *(words((left - 6, position(tick) + 4), f"{tick:g}".replace("-", "−"), anchor="end") for tick in ticks),
    ]
