"""Sensitivity: scores over an option that varies between otherwise equal runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from holdfast.report.figures import Figure, axis, recipe_curve, recipe_figure
from holdfast.report.runs import flattened
from holdfast.report.scores import Metric
from holdfast.report.tables import Line, Table, canonical, grouped

FEWEST_VALUES = 3  # a line needs at least three points
NOT_SETTINGS = {"label", "citation"}


@dataclass(frozen=True, eq=False)
class Sweep:
    """One option and the scores at each of its values, recipe by recipe."""

    option: str
    metric: Metric
    streams: Sequence[str]  # their labels
    values: Sequence[Any]  # numbers sorted, names in order of appearance
    lines: Mapping[str, Mapping[Any, Line]]  # recipe -> value -> line


@dataclass(frozen=True, eq=False)
class _Point:
    table: Table
    line: Line
    settings: Mapping[str, Any]

    def without(self, option: str, *, recipe: bool) -> frozenset[tuple[str, Any]]:
        """Return all other settings, with or without those of the recipe."""
        others = self.settings.items()
        return frozenset((k, v) for k, v in others if k != option and (recipe or not k.startswith("recipe.")))


def make_sweeps(tables: Sequence[Table]) -> list[Sweep]:
    """Find every option of stream, recipe or batch size with at least three values while everything else is equal.

    The values are all numbers or all names: "iid" beside 0.85 is another kind of stream, not a point on the line.
    """
    points = [_Point(table, line, _settings(line)) for table in tables for line in table.lines]
    options = dict.fromkeys(option for point in points for option in point.settings)
    sweeps = []
    for option in options:
        if len({point.settings.get(option) for point in points}) >= FEWEST_VALUES:
            sweeps += [sweep for chart in _charts(option, points) for sweep in _sweeps(option, chart)]
    return sweeps


def _charts(option: str, points: Sequence[_Point]) -> list[list[_Point]]:
    known = [point for point in points if point.settings.get(option) is not None]
    return grouped(known, lambda point: point.without(option, recipe=False))


def _sweeps(option: str, points: Sequence[_Point]) -> Iterator[Sweep]:
    """Yield the sweep of these points, which differ in their recipes and in the option, if there is one."""
    series: dict[frozenset[tuple[str, Any]], dict[Any, _Point]] = {}
    for point in points:
        series.setdefault(point.without(option, recipe=True), {}).setdefault(point.settings[option], point)
    courses = [course for course in series.values() if len(course) >= FEWEST_VALUES and _alike(list(course))]
    if courses:
        values = list(dict.fromkeys(value for course in courses for value in course))
        firsts = [next(iter(course.values())).line.recipe for course in courses]
        names = [recipe.name if option.startswith("recipe.") else recipe.label for recipe in firsts]
        shown = [point for course in courses for point in course.values()]
        yield Sweep(
            option=option_in_words(option),
            metric=shown[0].table.metric,
            streams=list(dict.fromkeys(point.table.manifest.stream.label for point in shown)),
            values=values if isinstance(values[0], str) else sorted(values),
            lines={
                name: {value: point.line for value, point in course.items()}
                for name, course in zip(names, courses, strict=True)
            },
        )


def _alike(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values) or all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )


def _settings(line: Line) -> dict[str, Any]:
    """Return all settings of a line under dotted names; values that cannot be on an axis are tuples."""
    manifest = line.runs[0].manifest
    content = {
        "suite_and_model": [manifest.suite, manifest.model.name],  # a list is no axis
        "batch_size": manifest.protocol.get("batch_size"),
        "samples": manifest.protocol.get("samples"),
        "speed": [manifest.protocol.get("speed")],  # has a section of its own
        "stream": manifest.stream.spec or {"protocol": manifest.protocol.get("stream")},
        "recipe": manifest.recipe.model_dump(exclude=NOT_SETTINGS),
    }
    return {
        key: value if value is None or isinstance(value, (str, int, float)) else (canonical({key: value}),)
        for key, value in _flat(content)
    }


def _flat(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in flattened(content).items():
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):  # the only chain of its kind
            yield from _flat({key.removesuffix("s"): value[0]})
        else:
            yield key, value


def option_in_words(option: str) -> str:
    """Return the name of an option for the axis of a chart.

    >>> option_in_words("stream.plan.domain_chain.stay"), option_in_words("recipe.options.prediction_layer")
    ('domain chain: stay', 'prediction layer')
    """
    parts = [part for part in option.split(".") if part not in ("stream", "plan", "recipe", "options")]
    return ": ".join(part.removesuffix("_options").replace("_", " ") for part in parts[-2:])


def sweep_figure(sweep: Sweep) -> Figure:
    """Return the scores over the values, evenly spaced, with a bar for the spread over the seeds."""
    values = [printed_value(value) for value in sweep.values]
    x_axis = axis(escape(sweep.option), type="category", categoryorder="array", categoryarray=values)
    curves = []
    for number, (recipe, course) in enumerate(sweep.lines.items()):
        lines = [(printed_value(value), course[value]) for value in sweep.values if value in course]
        bars = [round(line.std or 0, 3) for _, line in lines]
        spread = {"array": bars, "visible": any(line.std is not None for _, line in lines), "thickness": 1}
        curves.append(recipe_curve(recipe, number, [(x, line.mean) for x, line in lines], error_y=spread))
    return recipe_figure(curves, x_axis, sweep.metric)


def printed_value(value: Any) -> str:
    """Return a value for the axis of a chart.

    >>> printed_value(2.0), printed_value("stages.0.norm")
    ('2', 'stages.0.norm')
    """
    return value if isinstance(value, str) else f"{value:g}"
