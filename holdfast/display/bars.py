"""Bars for work that goes on: rich in a terminal, HTML in a notebook, nothing elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

KERNEL = "JPY_PARENT_PID"  # which the commands of a notebook inherit
EVERY_SECONDS = 0.2  # between two pictures in a notebook


def in_notebook() -> bool:
    """Return whether cells of a notebook run here; IPython in a terminal is none.

    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")  # which a notebook has loaded
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


@dataclass(frozen=True)
class _Bar:
    """One bar of a notebook."""

    name: str
    done: float = 0
    total: float | None = None
    note: str = ""
    visible: bool = True

    def html(self) -> str:
        """Return the bar with its name, its count and its note."""
        ends = "" if self.total is None else f' value="{self.done}" max="{self.total}"'
        count = "" if self.total is None else f" {self.done:.0f}/{self.total:.0f}"
        return f"<div><progress{ends}></progress> {escape(self.name)}{count} {escape(self.note)}</div>"


class Bars:
    """Any number of bars; `visible` says whether anyone sees them. Use it in a `with` block.

    >>> with Bars(Console(file=sys.stdout, force_terminal=False)) as bars:
    ...     work = bars.add("working", total=2)
    ...     bars.update(work, done=1, note="half")
    ...     bars.visible
    False
    """

    def __init__(self, console: Console | None = None, *, columns: tuple[ProgressColumn, ...] = ()) -> None:
        self.console = console or Console(stderr=True)
        self.notebook = console is None and in_notebook()
        in_terminal = self.console.is_terminal and KERNEL not in os.environ  # a cell may run a command
        self.visible = self.notebook or in_terminal
        self._rich = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            *(columns or (MofNCompleteColumn(), TextColumn("{task.fields[note]}"), TimeRemainingColumn())),
            console=self.console,
            disable=self.notebook or not in_terminal,
        )
        self._shown: dict[int, _Bar] = {}  # in a notebook
        self._last_line, self._drawn = "", 0.0
        self._handle: Any = None

    def add(self, name: str, total: float | None = None) -> int:
        """Add a bar and return its number."""
        task = int(self._rich.add_task(name, total=total, note=""))
        self._shown[task] = _Bar(name, total=total)
        return task

    def update(self, task: int, **changes: Any) -> None:
        """Change `name`, `done`, `total`, `note` or `visible` of a bar."""
        self._shown[task] = replace(self._shown[task], **changes)
        self._rich.update(task, **_in_rich_words(changes))  # type: ignore[arg-type]
        self._draw()

    def remove(self, task: int) -> None:
        """Take a bar away."""
        del self._shown[task]
        self._rich.remove_task(task)  # type: ignore[arg-type]

    def line(self, text: str) -> None:
        """Print a line above the bars; a notebook shows the last one only."""
        if self.notebook:
            self._last_line = text
            self._draw()
        else:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self, *, at_once: bool = False) -> None:
        if not self.notebook or (not at_once and time.monotonic() - self._drawn < EVERY_SECONDS):
            return
        notebook: Any = import_module("IPython.display")
        self._drawn = time.monotonic()
        bars = "".join(bar.html() for bar in self._shown.values() if bar.visible)
        picture = notebook.HTML(f"{bars}<div>{escape(self._last_line)}</div>")
        if self._handle is None:
            self._handle = notebook.display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def __enter__(self) -> Bars:
        self._rich.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._rich.stop()
        self._draw(at_once=True)


def _in_rich_words(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes under the names that rich has for them."""
    words = {"name": "description", "done": "completed"}
    return {words.get(name, name): value for name, value in changes.items()}
