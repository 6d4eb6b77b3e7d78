"""Live progress: in a terminal a bar for each run that goes on, and everywhere a line for each finished run."""

from __future__ import annotations

from types import TracebackType
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from holdfast.benchmark.attempt import Progress


class LiveProgress:
    """Progress of a suite; call the object with each `Progress`."""

    def __init__(
        self, jobs: int, console: Console | None = None, *, metric: Literal["error", "accuracy"] = "error"
    ) -> None:
        self._metric = metric
        self._console, self._jobs, self._finished = console or Console(stderr=True), jobs, 0
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}  # of the runs that go on
        self._all = self._bars.add_task("runs", total=jobs, score="")

    def __call__(self, progress: Progress) -> None:
        """Update the bar of a run, or replace it by a line when the run is finished."""
        counted = progress.correct if self._metric == "accuracy" else progress.samples - progress.correct
        score = f"{self._metric} {100 * counted / max(1, progress.samples):.1f} %"
        if progress.finished:
            self._finished += 1
            if (done := self._tasks.pop(progress.job, None)) is not None:
                self._bars.remove_task(done)
            line = f"{self._finished} of {self._jobs}: {progress.label}, {score}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif self._console.is_terminal:
            if progress.job not in self._tasks:
                self._tasks[progress.job] = self._bars.add_task(progress.label, total=progress.total, score="")
            task = self._tasks[progress.job]
            self._bars.update(task, description=progress.label, completed=progress.samples, score=score)
        self._fit()

    def _fit(self) -> None:
        """Show as many bars as the terminal has lines, and say how many more runs go on."""
        room = max(1, self._console.height - 3)
        for index, task in enumerate(self._tasks.values()):
            self._bars.update(task, visible=index < room)
        hidden = len(self._tasks) - room
        self._bars.update(self._all, completed=self._finished, score=f"{hidden} more go on" if hidden > 0 else "")

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bars.stop()
