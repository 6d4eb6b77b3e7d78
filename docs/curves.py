"""Draw the curves on the pages of the methods from results/method-curves.json; docs/build.py writes them."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parents[1] / "results" / "method-curves.json"
DRAW: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("drawing.py")))
BASELINES = {"source": "quiet", "batch_norm": "other"}  # and their colours
LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 30, DRAW["WIDTH"] - 6, 10, 160, 206  # of the plot inside the image, and the image
UP = DRAW["scale"]((0, 100), (BOTTOM, TOP))


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
    return {**{recipe: colour for recipe, colour in BASELINES.items() if recipe != name}, name: "good"}


def described(name: str, result: Result) -> str:
    """Return the alternative text of an image."""
    words = f"{100 * result.curves[name].mean:.0f} % on average, the source {100 * result.curves['source'].mean:.0f} %"
    return f"Accuracy of {name} along a stream of corrupted digits: {words}"


def svg(name: str, result: Result) -> str:
    """Return the image of a method, with the source and batch statistics beside it."""
    parts = [
        *DRAW["left_axis"]((0, 50, 100), UP, LEFT, RIGHT),
        *domains(result.domains),
        *(line(result.curves[recipe], colour) for recipe, colour in colours(name).items()),
        *legend(colours(name)),
    ]
    return str(DRAW["image"](HEIGHT, described(name, result), parts))


def domains(names: Sequence[str]) -> list[str]:
    """Return the borders between domains, and their names."""
    step = (RIGHT - LEFT) / len(names)
    borders = [LEFT + step * number for number in range(1, len(names))]
    middles = [LEFT + step * (number + 0.5) for number in range(len(names))]
    return [
        *(DRAW["line"]([(x, TOP), (x, BOTTOM)], "grid", width=1, dash="3 3") for x in borders),
        *(DRAW["words"]((x, BOTTOM + 16), name.replace("_", " ")) for x, name in zip(middles, names, strict=True)),
    ]


def line(curve: Curve, colour: str) -> str:
    """Return the line of one curve, with a point in the middle of each batch."""
    apart = (RIGHT - LEFT) / len(curve.batches)
    points = [(LEFT + apart * (batch + 0.5), UP(100 * share)) for batch, share in enumerate(curve.batches)]
    return str(DRAW["line"](points, colour))


def legend(drawn: Mapping[str, str]) -> list[str]:
    """Return a dash and a name for each recipe, in a row."""
    parts, left = [], LEFT
    for recipe, colour in drawn.items():
        parts.append(DRAW["line"]([(left, HEIGHT - 10), (left + 18, HEIGHT - 10)], colour, width=2.5))
        parts.append(DRAW["words"]((left + 23, HEIGHT - 6), recipe, "ink", anchor="start"))
        left += 46 + 8 * len(recipe)
    return parts
