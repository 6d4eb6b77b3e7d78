"""Streams that do not wait: the score of every recipe against the speed of the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.display.cells import Cell, CellColumn, CellTable, Emphasis
from holdfast.records import NOT_IN_TIME
from holdfast.report.figures import Figure, axis, recipe_curve, recipe_figure
from holdfast.report.scores import Metric
from holdfast.report.tables import Line, Table, canonical, grouped


@dataclass(frozen=True, eq=False)
class Course:
    """One stream and model at several speeds: the line of each recipe at each of them."""

    title: str
    metric: Metric
    tables: Mapping[float, Table]  # by speed, in rising order

    @property
    def recipes(self) -> list[str]:
        """The labels of the recipes, in the order of the tables."""
        return list(dict.fromkeys(line.recipe.label for table in self.tables.values() for line in table.lines))

    def line(self, recipe: str, speed: float) -> Line | None:
        """Return a recipe at a speed."""
        return next((line for line in self.tables[speed].lines if line.recipe.label == recipe), None)


def make_courses(tables: Sequence[Table]) -> list[Course]:
    """Return the timed tables of each suite, stream and model as one, whatever their speeds."""
    timed = [table for table in tables if table.protocol["protocol"] == "online-timed"]
    courses = []
    for group in grouped(timed, lambda table: canonical({**table.protocol, "speed": None})):
        manifest = group[0].manifest
        by_speed = {float(table.protocol["speed"]): table for table in group}
        title = f"{manifest.stream.label} · {manifest.model.name}: against the speed of the stream"
        courses.append(Course(title, group[0].metric, dict(sorted(by_speed.items()))))
    return courses


def course_table(course: Course) -> CellTable:
    """Return the scores, a line for each recipe and a column for each speed, and the share of batches adapted to."""
    columns = [CellColumn("recipe", "recipe", [Cell(recipe) for recipe in course.recipes], align="left")]
    for speed, table in course.tables.items():
        lines = [course.line(recipe, speed) for recipe in course.recipes]
        cells = [_cell(line, table) for line in lines]
        columns.append(CellColumn(f"speed {speed:g}", f"{course.metric} at speed {speed:g}", cells))
    for speed in course.tables:
        shares = [_adapted(course.line(recipe, speed)) for recipe in course.recipes]
        columns.append(CellColumn(None, f"adapted to at speed {speed:g} (%)", [Cell(share) for share in shares]))
    note = (
        f"{course.metric.capitalize()} in %, mean over the seeds; in brackets the batches adapted to, in %. The speed "
        "is the number of batches that arrive while the source predicts one. The others were predicted by the latest "
        "state. Bold: best of its column."
    )
    return CellTable(course.title, columns, note)


def course_figure(course: Course) -> Figure:
    """Return a line for each recipe over the speeds, on a logarithmic axis."""
    curves = []
    for number, recipe in enumerate(course.recipes):
        lines = [(speed, line) for speed in course.tables if (line := course.line(recipe, speed)) is not None]
        curves.append(recipe_curve(recipe, number, [(speed, line.mean) for speed, line in lines]))
    x_axis = axis("batches that arrive while the source predicts one", type="log")
    return recipe_figure(curves, x_axis, course.metric)


def _cell(line: Line | None, table: Table) -> Cell:
    if line is None:
        return Cell(float("nan"))
    emphasis: Emphasis = "best" if line in table.leading else ""
    return Cell(line.mean, line.std, emphasis, note=f"{_adapted(line):.0f}")


def _adapted(line: Line | None) -> float:
    """Return the share of batches that a recipe was in time to adapt to, in %."""
    if line is None:
        return float("nan")
    reasons = [reason for run in line.runs for reason in run.rows.skipped]
    return 100 * (1 - reasons.count(NOT_IN_TIME) / max(1, len(reasons)))
