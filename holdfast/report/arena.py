"""The reset arena: false resets, missed collapses and delays of each recovery, and the same of alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from holdfast.display.cells import WordTable, printed
from holdfast.report.gains import base_of, same_method
from holdfast.report.metrics import accuracy, collapse_onset, moving_accuracy
from holdfast.report.runs import RunRecord
from holdfast.report.scores import mean_or_nan
from holdfast.report.tables import Line, Table, grouped

ALARMS = ("risk",)  # estimators that raise alarms
WINDOW_BATCHES = 10  # moving average in which a run is compared with the source to detect a collapse


@dataclass
class Score:
    """Counts and accuracies (as shares) of one recipe over all its runs of a suite."""

    accuracies: list[float] = field(default_factory=list)
    after_collapse: list[float] = field(default_factory=list)  # accuracies from the scripted onset to the end
    healthy: int = 0  # batches
    false_resets: int = 0
    collapses: int = 0
    delays: list[int] = field(default_factory=list)  # in batches, of the collapses that a reset followed

    def add(self, table: Table, line: Line, base: Line, *, alarm: str | None = None) -> None:
        """Add the runs of the recipe on one stream, by its resets or by the alarms of an estimator."""
        for run in line.runs:
            reasons = run.rows.recovered if alarm is None else run.rows.estimates[alarm].alarm
            reset = np.array([reason is not None for reason in reasons])
            healthy = healthy_batches(table, run, base)
            self.accuracies.append(accuracy(run.rows))
            self.healthy += healthy
            self.false_resets += int(reset[:healthy].sum())
            onset = scripted_onset(run)
            if onset is not None:
                self.collapses += 1
                self.after_collapse.append(float(run.rows.correct[onset:].sum() / run.rows.size[onset:].sum()))
                self.delays += np.flatnonzero(reset[onset:])[:1].tolist()

    def cells(self) -> list[str]:
        """Return the numbers as they are printed."""
        return [
            printed(100 * fmean(self.accuracies)),
            printed(100 * mean_or_nan(self.after_collapse)),
            printed(100 * self.false_resets / self.healthy) if self.healthy else "–",
            f"{self.collapses - len(self.delays)} of {self.collapses}",
            printed(mean_or_nan(self.delays)),
        ]


def arena_tables(tables: Sequence[Table]) -> list[WordTable]:
    """Return one table for each suite and model in which a collapse was scripted."""
    return [
        _arena_table(group)
        for group in grouped(tables, lambda table: table.suite_and_model)
        if any("collapse" in table.protocol for table in group)
    ]


def _arena_table(tables: Sequence[Table]) -> WordTable:
    scores: dict[str, Score] = {}
    for table in tables:
        for lines in same_method(table):
            base = base_of(lines)
            for line in lines:
                scores.setdefault(line.recipe.label, Score()).add(table, line, base)
            for name in ALARMS:
                if all(name in run.rows.estimates for run in base.runs):
                    label = f"{base.recipe.label}, alarm by {name}"
                    scores.setdefault(label, Score()).add(table, base, base, alarm=name)
    columns = ["recipe", "accuracy (%)", "after the collapse (%)", "false resets / 100", "missed", "delay (batches)"]
    note = (
        "Accuracy is the mean over streams and seeds; after the collapse: from the first affected batch to the end. A "
        "reset is false while the model is healthy: before a scripted collapse, or, without one, before the same "
        "method without a recovery falls below the source and stays there; per 100 such batches. A collapse is missed "
        "if no reset follows it; the delay is the mean over the others, 0 for a reset at the first affected batch. "
        "Recoveries that restore a few weights after every update report no resets. An alarm changes nothing; it "
        "counts where a reset would."
    )
    rows = [[label, *score.cells()] for label, score in scores.items()]
    return WordTable(f"{tables[0].suite_and_model}: the reset arena", columns, rows, note)


def scripted_onset(run: RunRecord) -> int | None:
    """Return the first batch that is predicted after a scripted update; None without one.

    Estimates and losses of the batch before are still those of the undamaged network, so no recovery can react sooner.
    """
    script = run.manifest.protocol.get("collapse")
    if script is None:
        return None
    answered = np.flatnonzero(run.rows.position > script["from_sample"])
    return int(answered[0]) if len(answered) else None


def healthy_batches(table: Table, run: RunRecord, base: Line) -> int:
    """Return the number of batches before a lasting collapse.

    It begins at the scripted onset, or, without one, where the same method without a recovery falls below the source
    and stays there.
    """
    onset = scripted_onset(run)
    lines = [] if table.source is None else [base, table.source]
    twins = [one for line in lines for one in line.runs if one.manifest.seed == run.manifest.seed]
    if onset is None and len(twins) == 2:
        window = WINDOW_BATCHES * int(run.rows.size.max())
        mine, sources = (moving_accuracy(one.rows, run.rows.ends, window) for one in twins)
        onset = collapse_onset(mine, sources)
    return len(run.rows) if onset is None else onset
