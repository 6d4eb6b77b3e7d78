"""Published numbers beside runs that measured the same thing, and why others have none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.display.cells import printed
from holdfast.report.as_published import published_rows
from holdfast.report.runs import RunRecord

PARTS = {"unitta-main": "unitta"}  # suites that hold streams of another
IN_BRACKETS = (
    " In brackets: as published for the same network, data, options and length; data and weights without a published "
    "digest are known by their size."
)
MENTIONED = 5  # reasons in a caption


@dataclass(frozen=True)
class Number:
    """A published number, with its standard deviation over seeds where the paper has one."""

    value: float
    spread: float | None = None

    def text(self, form: str = ".1f") -> str:
        """Return it as tables print it.

        >>> Number(4.83, 0.31).text(), Number(4.83).text("+.1f")
        ('4.8 ± 0.31', '+4.8')
        """
        spread = "" if self.spread is None else f" ± {self.spread:g}"
        return f"{printed(self.value, form)}{spread}"


def published_on(stream: str, runs: Sequence[RunRecord], measure: str) -> dict[str, Number]:
    """Return recipe -> value on one stream, by its label."""
    return {recipe: value for (recipe, column), value in published(runs, measure).items() if column == stream}


def published(runs: Sequence[RunRecord], measure: str) -> dict[tuple[str, str], Number]:
    """Return (recipe, column) -> number, in % or points, of a measure, for recipes whose runs are the published ones.

    Measures are `accuracy`, `mae:` with an estimator (mean absolute error) and `gain:` with a recovery.
    """
    return {
        (row["recipe"], row["column"]): Number(float(row["value"]), float(row["spread"]) if row["spread"] else None)
        for row, differences in _compared(runs, measure)
        if not differences
    }


def withheld(runs: Sequence[RunRecord], measure: str, column: str) -> list[str]:
    """Return why published numbers of the same network are not shown in a column, one sentence for each recipe."""
    compared = ((row["recipe"], differences) for row, differences in _compared(runs, measure, column))
    return list(dict.fromkeys(f"{recipe} on {column}: {how[0]}" for recipe, how in compared if how))


def _compared(
    runs: Sequence[RunRecord], measure: str, column: str = ""
) -> Iterator[tuple[Mapping[str, str], list[str]]]:
    """Yield the published numbers of a measure whose network and recipe were run, and how those runs differ."""
    for row in published_rows():
        if row["measure"] == measure and column in ("", row["column"]) and (same := _runs_of(row, runs)):
            yield row, list(_differences(row, same))


def beside(shown: bool, missing: Sequence[str] = ()) -> str:
    """Return the end of a caption: what stands in brackets, and why a number is missing.

    >>> beside(False, ["tent on cin-c: seed is 7 instead of 0"])
    ' Published numbers are not shown where something else was measured (tent on cin-c: seed is 7 instead of 0).'
    """
    text = IN_BRACKETS if shown else ""
    if missing:
        more = [f"and {len(missing) - MENTIONED} more"] if len(missing) > MENTIONED else []
        listed = "; ".join([*missing[:MENTIONED], *more])
        text += f" Published numbers are not shown where something else was measured ({listed})."
    return text


def _runs_of(row: Mapping[str, str], runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs of the suite, or a part of it, the network and the recipe of a published number."""
    return [
        run
        for run in runs
        if row["suite"] in (run.manifest.suite, PARTS.get(run.manifest.suite))
        and int(row["parameters"]) == run.manifest.model.parameters
        and row["model"] in ("", run.manifest.model.name)
        and f"{run.manifest.recipe.label} + ".startswith(f"{row['recipe']} + ")  # with any recovery
    ]


def _differences(row: Mapping[str, str], runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield how runs differ from the published ones.

    A stream that ends by the official rules of UniTTA has the length that it should, unless it was cut short.
    """
    wanted: set[int] = set()
    for run in runs:
        manifest = run.manifest
        if manifest.published is None:
            yield "the run does not say how it differs from the published one; run it again"
            return
        wanted |= set(manifest.published.seeds)
        yield from manifest.published.deviations
        if int(row["samples"] or 0) > run.samples:
            yield f"{run.samples:,} samples instead of {int(row['samples']):,}"
        per_cell = manifest.stream.spec.get("plan", {}).get("samples_per_cell")
        if row["samples_per_cell"] != str(per_cell or ""):
            yield f"{per_cell or 'other'} samples of each class and domain instead of {row['samples_per_cell']}"
        if per_cell is not None and manifest.protocol.get("samples") is not None:
            yield f"the stream was cut to {manifest.protocol['samples']:,} samples"
    seeds = {run.manifest.seed for run in runs}
    if seeds != wanted:
        yield f"seeds {_listed(seeds)} instead of {_listed(wanted)}"


def _listed(seeds: set[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
