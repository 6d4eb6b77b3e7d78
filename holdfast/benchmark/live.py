"""Live progress: a bar for each run in a terminal, and a line for each finished run anywhere else."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from holdfast.benchmark.attempt import Progress

__all__ = ["LiveProgress"]


class LiveProgress:
    """Progress of a suite; call the object with each `Progress`."""

    def __init__(self, jobs: int, console: Console | None = None) -> None:
        self._console, self._jobs, self._finished = console or Console(stderr=True), jobs, 0
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[accuracy]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._all = self._bars.add_task("runs", total=jobs, accuracy="")

    def __call__(self, progress: Progress) -> None:
        """Update the bar of a run, or print a line when it is finished."""
        if not self._console.is_terminal:
            self._print(progress)
            return
        if progress.job not in self._tasks:
            self._tasks[progress.job] = self._bars.add_task(progress.label, total=progress.total, accuracy="")
        task = self._tasks[progress.job]
        accuracy = f"accuracy {100 * progress.correct / max(1, progress.samples):.1f} %"
        self._bars.update(task, description=progress.label, completed=progress.samples, accuracy=accuracy)
        if progress.finished:
            self._bars.update(task, total=progress.samples)
            self._bars.advance(self._all)

    def _print(self, progress: Progress) -> None:
        if progress.finished:
            self._finished += 1
            accuracy = 100 * progress.correct / max(1, progress.samples)
            line = f"{self._finished} of {self._jobs}: {progress.job.rpartition('-')[0]}, accuracy {accuracy:.1f} %"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bars.stop()
