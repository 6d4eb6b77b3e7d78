"""Draw the curves on the pages of the methods from results/method-curves.json; docs/build.py writes them.

Colours are legible on light and on dark pages, because an image does not know the colours of its page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RESULT = Path(__file__).resolve().parents[1] / "results" / "method-curves.json"
BASELINES = {"source": "#7d8590", "batch_norm": "#3a8fd9"}  # and their colours
GREY, OWN = "#7d8590", "#e0592a"
LEFT, TOP, WIDTH, HEIGHT = 30, 10, 560, 150  # of the plot inside the image


@dataclass(frozen=True)
class Curve:
    """Accuracy of one recipe: in each batch, and over all samples, as shares."""

    batches: tuple[float, ...]
    mean: float


@dataclass(frozen=True)
class Result:
    """The committed runs: curves by recipe, the domains of the stream, its length, and the network."""

    curves: Mapping[str, Curve]
    domains: tuple[str, ...]
    samples: int
    batch_size: int
    network: str


def read() -> Result:
    """Return the committed result."""
    content = json.loads(RESULT.read_text())
    parts, runs = content["parts"], content["runs"]
    curves = {run["recipe"]: Curve(tuple(run["batch_accuracy"]), run["summary"]["accuracy"]) for run in runs}
    stream, protocol, network = (parts[runs[0]["manifest"][key]] for key in ("stream", "protocol", "model"))
    samples = runs[0]["summary"]["samples"]
    return Result(curves, tuple(stream["domains"]), samples, protocol["batch_size"], network["name"])


def section(name: str, result: Result) -> list[str]:
    """Return the section of a method's page: the image and what it shows; nothing if the method was not measured."""
    if name not in result.curves:
        return []
    means = ", ".join(f"`{recipe}` {100 * result.curves[recipe].mean:.1f} %" for recipe in colours(name))
    around = ", around `tent`," * (name == "guard")
    text = (
        f"Accuracy in each batch with the default options{around} and one seed: `{result.network}`, {result.samples} "
        f"test digits with shuffled classes in batches of {result.batch_size}, four corruptions one after the other at "
        f"severity 3. Over all samples: {means}; differences of 2 points are noise "
        "([results/method-curves.yaml](../../results/method-curves.yaml))."
    )
    image = f"![{described(name, result)}](../curves/{name}.svg)"
    return ["## On the embedded digits", "", image, "", text, *(["", caution(result)] if name == "blend" else [])]


def caution(result: Result) -> str:
    """Return why the default gains less on this stream than others, with its numbers."""
    source, blend, anchor, batch_norm = (
        f"{100 * result.curves[name].mean:.1f} %" for name in ("source", "blend", "anchor", "batch_norm")
    )
    return (
        f"The default is careful here: `blend` has {blend}, where `source` has {source}, `anchor` {anchor} and "
        f"`batch_norm` {batch_norm}, because source statistics and predictions keep a part, which strong shifts of "
        "balanced classes do not reward."
    )


def colours(name: str) -> dict[str, str]:
    """Return the colours of the recipes in an image; the method is the last, on top."""
    return {**{recipe: colour for recipe, colour in BASELINES.items() if recipe != name}, name: OWN}


def described(name: str, result: Result) -> str:
    """Return the alternative text of an image."""
    words = f"{100 * result.curves[name].mean:.0f} % on average, the source {100 * result.curves['source'].mean:.0f} %"
    return f"Accuracy of {name} along a stream of corrupted digits: {words}"


def svg(name: str, result: Result) -> str:
    """Return the image of a method, with the source and batch statistics beside it."""
    width, height = LEFT + WIDTH + 8, TOP + HEIGHT + 46
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    style = f'fill="{GREY}" font-family="system-ui,sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {style}>',
        f"<title>{described(name, result)}</title>",
        *axes(result.domains),
        *(line(result.curves[recipe], colour) for recipe, colour in colours(name).items()),
        *legend(colours(name), height - 8),
        "</svg>",
    ]
    return "\n".join([*lines, ""])


def axes(domains: Sequence[str]) -> list[str]:
    """Return the grid, its scale in percent, and the names of the domains."""
    step, bottom = WIDTH // len(domains), TOP + HEIGHT
    heights = {share: bottom - HEIGHT * share // 100 for share in (0, 50, 100)}
    grid = "".join(f"M{LEFT} {height}h{WIDTH}" for height in heights.values())
    borders = "".join(f"M{LEFT + step * index} {TOP}v{HEIGHT}" for index in range(1, len(domains)))
    names = [domain.replace("_", " ") for domain in domains]
    return [
        f'<path d="{grid}" stroke="{GREY}" stroke-opacity=".4"/>',
        f'<path d="{borders}" stroke="{GREY}" stroke-opacity=".4" stroke-dasharray="3 3"/>',
        *(words(LEFT - 5, height + 4, f"{share}", anchor="end") for share, height in heights.items()),
        *(words(LEFT + step * index + step // 2, bottom + 16, name) for index, name in enumerate(names)),
    ]


def line(curve: Curve, colour: str) -> str:
    """Return the line of one curve, with a point in the middle of each batch."""
    apart = WIDTH / len(curve.batches)
    points = [
        f"{LEFT + apart * (batch + 0.5):.0f},{TOP + HEIGHT * (1 - share):.1f}"
        for batch, share in enumerate(curve.batches)
    ]
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'


def legend(colours: Mapping[str, str], height: int) -> list[str]:
    """Return a dash and a name for each recipe, in a row."""
    parts, left = [], LEFT
    for recipe, colour in colours.items():
        parts.append(f'<path d="M{left} {height - 4}h18" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(words(left + 23, height, recipe, anchor="start"))
        left += 46 + 8 * len(recipe)
    return parts


def words(x: int, y: int, text: str, *, anchor: str = "middle") -> str:
    """Return a text element."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
