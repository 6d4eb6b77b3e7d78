"""Gains of recoveries: the difference to the same method without a recovery, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from holdfast.display.cells import WordTable
from holdfast.report.estimates import spread
from holdfast.report.metrics import accuracy
from holdfast.report.published import beside, published_on, withheld
from holdfast.report.tables import Line, Table, canonical, grouped, told_apart


def gain_table(table: Table) -> WordTable | None:
    """Return gains in points, recoveries × methods; None unless a method ran with several recoveries."""
    groups = [lines for lines in same_method(table) if len(recoveries_of(lines)) > 1]
    if not groups:
        return None
    stream = table.manifest.stream.label
    names = told_apart([lines[0].recipe.name for lines in groups], [lines[0].recipe.options for lines in groups])
    by_method = {name: recoveries_of(lines) for name, lines in zip(names, groups, strict=True)}
    recoveries = list(dict.fromkeys(recovery for lines in by_method.values() for recovery in lines))
    known = {recovery: published_on(stream, table.runs, f"gain:{recovery}") for recovery in recoveries}
    bases = {name: base_of(list(lines.values())) for name, lines in by_method.items()}
    rows = [["base accuracy (%)", *(spread(accuracies(bases[name])) for name in names)]]
    for recovery in recoveries:
        if recovery == "never":
            continue
        gained = {name: gains(lines[recovery], bases[name]) for name, lines in by_method.items() if recovery in lines}
        rows.append([recovery, *(spread(gained.get(name, ()), known[recovery].get(name), "+.1f") for name in names)])
        if len(names) > 1 and len(gained) == len(names):
            rows[-1].append(f"{fmean(map(fmean, gained.values())):+.1f}")
    note = (
        "Gain in accuracy, in points, over the same method without a recovery, or, without such a run, over the first "
        "run of that method; mean ± standard deviation over the seeds."
    )
    missing = [reason for recovery in recoveries for reason in withheld(table.runs, f"gain:{recovery}", stream)]
    note += beside(any(known.values()), missing)
    columns = ["recovery", *names, *(["average"] if len(names) > 1 else [])]
    filled = [[*row, *[""] * (len(columns) - len(row))] for row in rows]
    return WordTable("Gains of recoveries", columns, filled, note)


def same_method(table: Table) -> list[list[Line]]:
    """Group the lines of a table that differ only in their recovery; the source is left out."""
    adapting = [line for line in table.lines if not line.is_source]
    return grouped(adapting, lambda line: canonical({"method": line.recipe.method, "options": line.recipe.options}))


def recoveries_of(lines: Sequence[Line]) -> Mapping[str, Line]:
    """Return the lines of one method by recovery, with its options where a recovery occurs twice."""
    names = [line.recipe.recovery or "never" for line in lines]
    return dict(zip(told_apart(names, [line.recipe.recovery_options for line in lines]), lines, strict=True))


def base_of(lines: Sequence[Line]) -> Line:
    """Return the line without a recovery, or the first one."""
    return next((line for line in lines if line.recipe.recovery in (None, "never")), lines[0])


def accuracies(line: Line) -> list[float]:
    """Return the accuracy of each seed, in %."""
    return [100 * accuracy(run.rows) for run in line.runs]


def gains(line: Line, base: Line) -> list[float]:
    """Return the difference for each seed that both have, in points."""
    before = {run.manifest.seed: 100 * accuracy(run.rows) for run in base.runs}
    return [100 * accuracy(run.rows) - before[seed] for run in line.runs if (seed := run.manifest.seed) in before]
