"""Draw the figures of the guides and results pages from results, for docs/pages.py."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

DOCS = Path(__file__).parent
FOLDER, RESULTS = DOCS / "figures", DOCS.parent / "results"
DRAW: dict[str, Any] = runpy.run_path(str(DOCS / "drawing.py"))
PROMISE: dict[str, Any] = runpy.run_path(str(DOCS / "promise_table.py"))
NEWEST: dict[str, Any] = runpy.run_path(str(DOCS / "measured_tables.py"))
COVERAGE: dict[str, Any] = runpy.run_path(str(DOCS / "coverage_table.py"))
WIDTH: int = DRAW["WIDTH"]
words, dots, line, signed = (DRAW[name] for name in ("words", "dots", "line", "signed"))
ON_EVERY_STREAM = ("blend", "guard(tent)", "anchor", "neo", "tent", "batch_norm")
FURTHER = ("unitta_auto", "foa_shift", "t3a", "pea")
CALLED = {"blend": "blend, the default"}
AT_LEFT = ("neo", "batch_norm", "guard(tent)")  # of their dots are the names of these in the figure of costs
STRIP, LABEL = 20, 18  # heights of the dots of a recipe and of its name above them

Point = tuple[float, float]


@dataclass(frozen=True)
class Strip:
    """The dots of one row: its name, a note at the right, and one value for each dot."""

    name: str
    note: str
    values: Sequence[float]


def swarm(values: Iterable[float], x_of: Any, middle: float, below: float) -> tuple[list[Point], list[Point]]:
    """Return the points at or above a value and those below it; values that fall together are spread vertically."""
    columns: dict[int, list[float]] = {}
    for value in sorted(values):
        columns.setdefault(round(x_of(value) / 3), []).append(value)
    good, bad = [], []
    for column in columns.values():
        step = min(3.0, STRIP / len(column))
        for rank, value in enumerate(column):
            offset = step * (rank + 1) // 2 * (1 if rank % 2 else -1)
            (bad if value < below else good).append((x_of(value), middle + offset))
    return good, bad


def strips(
    described: str,
    rows: Sequence[Strip],
    *,
    ticks: Sequence[float],
    below: float,
    line_at: float,
    called: str,
    axis: str,
) -> str:
    """Return a chart of rows of dots over one axis, with a line that everything is compared with."""
    largest = max(ticks[-1], *(max(row.values) for row in rows))
    x_of = DRAW["scale"]((ticks[0], largest), (14, WIDTH - 14))
    top, each = 20, STRIP + LABEL + 6
    bottom = top + each * len(rows)
    spans = [(top + each * number + LABEL, top + each * (number + 1)) for number in range(len(rows))]
    parts = [*DRAW["bottom_axis"](ticks, x_of, bottom, spans), words((x_of(line_at), top - 8), called, "strong")]
    for number, row in enumerate(rows):
        start = top + each * number
        parts += [words((4, start + 13), row.name, "strong", anchor="start")]
        parts += [words((WIDTH - 4, start + 13), row.note, anchor="end")]
        parts += [line([(x_of(line_at), spans[number][0]), (x_of(line_at), spans[number][1])], "ink", width=1.5)]
        good, bad = swarm(row.values, x_of, start + LABEL + STRIP / 2 + 2, below)
        parts += [dots(points, name) for points, name in ((good, "good"), (bad, "bad")) if points]
    parts += [words((WIDTH / 2, bottom + 32), axis)]
    return str(DRAW["image"](bottom + 40, described, parts))


def promise(recipes: Sequence[str]) -> str:
    """Return every stream of every network as a dot, recipe by recipe, in points over the source."""
    kept = PROMISE["rows"]()
    over = {recipe: list(PROMISE["gains"](recipe, kept).values()) for recipe in recipes}
    rows = [Strip(CALLED.get(recipe, recipe), note(gains), gains) for recipe, gains in over.items()]
    spoken = "; ".join(f"{recipe}: worst {min(gains):+.1f}, mean {fmean(gains):+.1f}" for recipe, gains in over.items())
    return strips(
        f"Accuracy over the source in points, one dot for each stream. {spoken}",
        rows,
        ticks=(-80, -60, -40, -20, 0, 20, 40, 60, 80),
        below=PROMISE["BELOW"],
        line_at=0,
        called="the source",
        axis="points of accuracy over the source, a dot for each stream",
    )


def over_source(name: str, called: Mapping[tuple[str, str], str]) -> dict[str, list[float]]:
    """Return the points over the source on every stream of a result, mean over the seeds, by what a recipe is called.

    `called` names the recipes to show by protocol and label.
    """
    content = json.loads((RESULTS / f"{name}.json").read_text())
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in content["runs"]:
        protocol, stream = (content["parts"][run["manifest"][part]] for part in ("protocol", "stream"))
        streams = scores.setdefault((protocol.get("protocol", "online"), run["recipe"]), {})
        streams.setdefault(stream["label"], []).append(100 * run["summary"]["accuracy"])
    return {
        text: [
            fmean(scores[key][stream]) - fmean(source)
            for stream, source in scores[key[0], "source"].items()
            if stream in scores[key]
        ]
        for key, text in called.items()
    }


def settings() -> str:
    """Return the 24 settings of UniTTA as dots, recipe by recipe, in points over the source."""
    recipes = ("unitta_auto", "unitta", "note", "bdn", "lame", "rotta", "roid", "tent")
    over = over_source("unitta-cifar10", {("online", recipe): recipe for recipe in recipes})
    spoken = "; ".join(f"{recipe}: worst {min(gains):+.1f}, mean {fmean(gains):+.1f}" for recipe, gains in over.items())
    return strips(
        f"Accuracy over the source in points, one dot for each setting of UniTTA. {spoken}",
        [Strip(recipe, note(gains), gains) for recipe, gains in over.items()],
        ticks=(-30, -20, -10, 0, 10, 20),
        below=PROMISE["BELOW"],
        line_at=0,
        called="the source",
        axis="points of accuracy over the source, a dot for each setting",
    )


def audio() -> str:
    """Return the criteria of DHAuDS on three data sets as dots, recipe by recipe, in points over the source."""
    recipes = {
        ("offline-fixed", "dhauds"): "dhauds, 8 epochs",
        ("offline-fixed", "tent"): "tent, 8 epochs",
        ("online", "dhauds-batch"): "dhauds, batch statistics",
        ("online", "tent"): "tent",
        ("online", "batch_norm"): "batch_norm",
        ("online", "dhauds"): "dhauds",
    }
    parts = [over_source(f"dhauds-{data}", recipes) for data in ("keywords", "fsdd", "esc10")]
    over = {recipe: [gain for part in parts for gain in part[recipe]] for recipe in recipes.values()}
    spoken = "; ".join(f"{recipe}: worst {min(gains):+.1f}, mean {fmean(gains):+.1f}" for recipe, gains in over.items())
    return strips(
        f"Accuracy over the source in points, one dot for each criterion of three data sets. {spoken}",
        [Strip(recipe, note(gains), gains) for recipe, gains in over.items()],
        ticks=(-10, 0, 10, 20, 30, 40, 50, 60),
        below=PROMISE["BELOW"],
        line_at=0,
        called="the source",
        axis="points of accuracy over the source, a dot for each criterion",
    )


def note(gains: Sequence[float]) -> str:
    """Return worst and mean gain and how many streams are below the source."""
    below = sum(gain < PROMISE["BELOW"] for gain in gains)
    return f"worst {signed(min(gains), 1)}, mean {signed(fmean(gains), 1)}, below {below} of {len(gains)}"


def cost() -> str:
    """Return the mean and the worst gain of recipes against what a step costs."""
    kept = PROMISE["rows"]()
    over = {recipe: PROMISE["gains"](recipe, kept) for recipe in ON_EVERY_STREAM}
    shared = set.intersection(*(set(gains) for gains in over.values()))
    measured = json.loads((RESULTS / "step-cost.json").read_text())["measured"]
    across = DRAW["scale"]((0, 5), (34, WIDTH - 10))
    up = DRAW["scale"]((-80, 20), (300, 20))
    parts = [*DRAW["left_axis"]((-80, -60, -40, -20, 20), up, 34, WIDTH - 10)]
    parts += [
        line([(34, up(0)), (WIDTH - 10, up(0))], "ink", width=1.5),
        words((28, up(0) + 4), "0", "strong", anchor="end"),
    ]
    parts += [words((across(passes), 316), str(passes)) for passes in range(6)]
    parts += [words((WIDTH / 2 + 10, 334), "cost of a step, in forward passes of the source")]
    parts += [words((36, 12), "points over the source: dot mean, dash worst stream", anchor="start")]
    for recipe, gains in over.items():
        mine = [gains[key] for key in shared]
        x, mean, worst = across(measured[recipe]["forwards"]), up(fmean(mine)), up(min(mine))
        colour, named = ("bad", worst + 4) if min(mine) < -20 else ("good", mean + 4)
        parts += [line([(x, mean), (x, worst)], colour, width=1, dash="3 3")]
        parts += [line([(x - 5, worst), (x + 5, worst)], colour, width=3), dots([(x, mean)], colour, size=9, opacity=1)]
        beside = (x - 8, "end") if recipe in AT_LEFT else (x + 8, "start")
        parts += [words((beside[0], named), recipe, "strong", anchor=beside[1])]
    spoken = "; ".join(
        f"{recipe} costs {measured[recipe]['forwards']:.1f} passes, worst {min(gains[key] for key in shared):+.0f}, "
        f"mean {fmean(gains[key] for key in shared):+.0f}"
        for recipe, gains in over.items()
    )
    return str(DRAW["image"](342, f"Gain against cost on {len(shared)} streams of BatchNorm networks. {spoken}", parts))


def coverage() -> str:
    """Return how often the interval held, a dot for each network and kind of stream, by what set its temperature."""
    content = json.loads((RESULTS / "coverage.json").read_text())
    called = {
        "labels": "held-out labels",
        "accuracy": "a known accuracy",
        "inputs": "held-out inputs",
        "nothing": "nothing",
    }
    rows = []
    for scale, name in called.items():
        mine = [
            row
            for row in content["rows"]
            if row["draw"] not in content["manifest"]["chosen_on"] and row["scale"] == scale
        ]
        known = [row for row in mine if row["windows"] > row["unknown"]]
        shares = [100 * row["covered"] / (row["windows"] - row["unknown"]) for row in known]
        held = 100 * sum(row["covered"] for row in known) / sum(row["windows"] - row["unknown"] for row in known)
        unknown = f", {len(mine) - len(known)} unknown" * (len(known) < len(mine))
        rows.append(Strip(f"scale from {name}", f"{held:.0f} % of all windows{unknown}", shares))
    spoken = "; ".join(f"{row.name}: {row.note}" for row in rows)
    return strips(
        f"How often a 90 % interval held the true accuracy. {spoken}",
        rows,
        ticks=(60, 70, 80, 90, 100),
        below=85,
        line_at=90,
        called="what a 90 % interval says",
        axis="% of windows, a dot for each network and kind of stream",
    )


def labels() -> str:
    """Return how many labels a bound within five points needs: drawn at random, and chosen by the audit."""
    audits = json.loads((RESULTS / "evidence.json").read_text())["audit"]
    counts = audits["labels until the 95 % lower bound is within points of the value"]
    called = {"digits-A": "digits", "r20-A": "ResNet-20, A", "r20-B": "ResNet-20, B", "r56-A": "ResNet-56, A"}
    called["r56-B"] = "ResNet-56, B"
    x_of = DRAW["scale"]((0, 1200), (112, WIDTH - 20))
    parts, top, spoken = [], 24, []
    parts += [words((x_of(200), 12), "chosen by the audit", "good", anchor="start")]
    parts += [words((WIDTH - 4, 12), "drawn at random", "quiet", anchor="end")]
    for target in ("accuracy", "gain"):
        parts += [words((4, top + 12), target, "strong", anchor="start")]
        for name, network in called.items():
            top += 20
            needed = counts[name]["labels"][target]
            random, chosen = (needed[how]["5 points"] for how in ("uniform sampling", "with prediction power"))
            ends = [(x_of(chosen), top + 8), (x_of(random), top + 8)]
            parts += [words((106, top + 12), network, anchor="end"), line(ends, "grid", width=2)]
            parts += [dots(ends[:1], "good", size=9, opacity=1), dots(ends[1:], "quiet", size=9, opacity=1)]
            spoken.append(f"{target}, {network}: {chosen} instead of {random}")
        top += 24
    parts += DRAW["bottom_axis"]((0, 400, 800, 1200), x_of, top, [(40, top)])
    parts += [words((WIDTH / 2 + 40, top + 32), "labels until the lower bound is within 5 points")]
    return str(DRAW["image"](top + 40, f"Labels that a bound needs. {'; '.join(spoken)}", parts))


def over_batches(
    described: str,
    curves: Mapping[str, Sequence[float]],
    colours: Mapping[str, tuple[str, str]],
    *,
    ticks: Sequence[float],
    head: str,
    axis: str,
) -> str:
    """Return lines over the course of a stream, each with its name at the end."""
    left, right = 30, WIDTH - 104
    up = DRAW["scale"]((ticks[0], ticks[-1]), (210, 24))
    longest = max(len(curve) for curve in curves.values())
    across = DRAW["scale"]((1, longest), (left, right))
    parts = [*DRAW["left_axis"](ticks, up, left, right), words((left, 12), head, anchor="start")]
    parts += [
        words((across(step), 226), f"{step}") for step in (1, longest // 4, longest // 2, 3 * longest // 4, longest)
    ]
    parts += [words(((left + right) / 2, 244), axis)]
    ends = spread({name: up(curve[-1]) for name, curve in curves.items()}, apart=14)
    for name, curve in curves.items():
        colour, dash = colours[name]
        parts += [line([(across(step), up(value)) for step, value in enumerate(curve, 1)], colour, dash=dash)]
        parts += [words((right + 5, ends[name] + 4), name, colour, anchor="start")]
    return str(DRAW["image"](252, described, parts))


def spread(heights: Mapping[str, float], *, apart: float) -> dict[str, float]:
    """Return the heights of names, moved down where they would overlap.

    >>> spread({"a": 10, "b": 11}, apart=5)
    {'a': 10, 'b': 15}
    """
    moved: dict[str, float] = {}
    for name, height in sorted(heights.items(), key=lambda entry: entry[1]):
        moved[name] = max([height, *(other + apart for other in moved.values())])
    return moved


def recurrence() -> str:
    """Return the error of some recipes at every visit to fifteen corruptions."""
    shown = {"tent x10": ("bad", ""), "source": ("quiet", "5 3"), "blend": ("good", ""), "tent": ("other", "2 2")}
    curves = {name: NEWEST["visits"]()[name] for name in shown}
    spoken = "; ".join(f"{name} from {curve[0]:.0f} to {curve[-1]:.0f} %" for name, curve in curves.items())
    return over_batches(
        f"Error over twenty visits to the same fifteen corruptions: {spoken}",
        curves,
        shown,
        ticks=(0, 20, 40, 60, 80),
        head="error in %",
        axis="visit to the fifteen corruptions",
    )


def collapse() -> str:
    """Return accuracy along sorted digits while TENT collapses, beside methods that should prevent it."""
    shown = {
        "source": ("quiet", "5 3"),
        "tent": ("good", ""),
        "tent x10": ("bad", ""),
        "come_tent x10": ("other", ""),
        "zerosiam x10": ("other", "5 3"),
        "poem x10": ("other", "2 2"),
    }
    by_recipe = NEWEST["by_recipe"]("collapse-digits", "sorted")
    curves = {name: smoothed([run["batch_accuracy"] for run in by_recipe[name]], window=16) for name in shown}
    spoken = "; ".join(f"{name} ends at {curve[-1]:.0f} %" for name, curve in curves.items())
    return over_batches(
        f"Accuracy along a stream of sorted digits: {spoken}",
        curves,
        shown,
        ticks=(0, 25, 50, 75, 100),
        head="accuracy in %, mean of the last 16 batches",
        axis="batch",
    )


def smoothed(runs: Sequence[Sequence[float]], *, window: int) -> list[float]:
    """Return the mean over runs of the last batches up to each one, in %."""
    batches = [100 * fmean(batch) for batch in zip(*runs, strict=True)]
    return [fmean(batches[max(0, end - window) : end]) for end in range(1, len(batches) + 1)]


def pages() -> dict[Path, str]:
    """Return every figure."""
    drawn = {
        "promise": promise(ON_EVERY_STREAM),
        "promise_all": promise((*ON_EVERY_STREAM, *FURTHER)),
        "cost": cost(),
        "coverage": coverage(),
        "labels": labels(),
        "recurrence": recurrence(),
        "collapse": collapse(),
        "settings": settings(),
        "audio": audio(),
    }
    return {FOLDER / f"{name}.svg": content for name, content in drawn.items()}
