"""Live progress: a bar for each run that goes on, and outside of notebooks a line for each finished run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console

from holdfast.benchmark.attempt import Progress, Tell
from holdfast.display.bars import Bars

NOTEBOOK_BARS = 12


class LiveProgress:
    """Progress of a suite; call the object with each `Progress`."""

    def __init__(
        self, jobs: int, console: Console | None = None, *, metric: Literal["error", "accuracy"] = "error"
    ) -> None:
        self._metric, self._jobs, self._finished = metric, jobs, 0
        self._bars = Bars(console)
        self._tasks: dict[str, int] = {}  # of the runs that go on
        self._all = self._bars.add("runs", total=jobs)

    @property
    def visible(self) -> bool:
        """Whether anyone sees the bars."""
        return self._bars.visible

    def __call__(self, progress: Progress) -> None:
        """Update the bar of a run, or replace it by a line when the run is finished."""
        counted = progress.correct if self._metric == "accuracy" else progress.samples - progress.correct
        score = f"{self._metric} {100 * counted / max(1, progress.samples):.1f} %"
        if progress.finished:
            self._finished += 1
            if (done := self._tasks.pop(progress.job, None)) is not None:
                self._bars.remove(done)
            self._bars.line(f"{self._finished} of {self._jobs}: {progress.label}, {score}")
        elif self._bars.visible:
            if progress.job not in self._tasks:
                self._tasks[progress.job] = self._bars.add(progress.label, total=progress.total)
            self._bars.update(self._tasks[progress.job], name=progress.label, done=progress.samples, note=score)
        self._fit()

    def _fit(self) -> None:
        """Show as many bars as the terminal has lines, and say how many more runs go on."""
        room = NOTEBOOK_BARS if self._bars.notebook else max(1, self._bars.console.height - 3)
        for index, task in enumerate(self._tasks.values()):
            self._bars.update(task, visible=index < room)
        hidden = len(self._tasks) - room
        self._bars.update(self._all, done=self._finished, note=f"{hidden} more go on" if hidden > 0 else "")

    def __enter__(self) -> LiveProgress:
        self._bars.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.__exit__(*error)


@contextmanager
def shown(progress: Tell | bool | None, jobs: int) -> Iterator[Tell | None]:
    """Give what to call for `progress`: a function is itself, False is silence, None are bars if anyone sees them."""
    if callable(progress) or progress is False:
        yield progress or None
        return
    with LiveProgress(jobs) as live:
        yield live if live.visible else None
