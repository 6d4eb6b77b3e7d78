"""A job under way: what it runs on, how far it has got, and how that is kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.adapted import AdaptedModel
from holdfast.benchmark.job import Job
from holdfast.benchmark.peak_memory import MARKS, peak_mib
from holdfast.benchmark.recorder import Recorder, make_row
from holdfast.records import Batch, Step
from holdfast.streams import Stream

__all__ = ["Attempt", "Place", "Progress"]


@dataclass(frozen=True)
class Progress:
    """How far a run has got."""

    job: str
    label: str
    samples: int
    total: int | None
    correct: int
    finished: bool = False


@dataclass(frozen=True)
class Place:
    """Where a saved state stands: everything before it is on disk."""

    samples: int = 0
    correct: int = 0
    row_bytes: int = 0
    offline: Mapping[str, Any] = field(default_factory=dict)  # what an offline protocol adds


@dataclass
class Attempt:
    """What a protocol works with: it answers batches with the model, and the attempt keeps score and state."""

    job: Job
    stream: Stream
    model: AdaptedModel
    recorder: Recorder
    folder: Path
    total: int | None
    checkpoint_seconds: float
    progress: Callable[[Progress], None]
    place: Place = Place()
    peaks: dict[str, float] = field(default_factory=dict)
    saved: float = field(default_factory=time.monotonic)

    def record(self, batch: Batch, step: Step, seconds: float) -> None:
        """Keep an answered batch, and the state where that is due."""
        self.recorder.write(make_row(batch, step, seconds))
        for share in MARKS:
            if self.total and self.recorder.samples - len(batch) < share * self.total <= self.recorder.samples:
                self.peaks[f"{share:.0%}"] = peak_mib()
        self.save_when_due()
        self.tell()

    def save_when_due(self) -> None:
        """Save the state, unless that was seconds ago."""
        if time.monotonic() - self.saved >= self.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Save the state, rows first: a state may be older than the rows on disk, but never newer."""
        recorder = self.recorder
        row_bytes = recorder.sync()
        self.place = replace(self.place, samples=recorder.samples, correct=recorder.correct, row_bytes=row_bytes)
        self.model.save(self.folder / "state.safetensors", note=asdict(self.place))
        self.saved = time.monotonic()

    def tell(self, doing: str = "", *, finished: bool = False) -> None:
        """Say how far the run has got."""
        label = f"{self.job.recipe.label}, {doing}" if doing else self.job.recipe.label
        correct, samples = self.recorder.correct, self.recorder.samples
        self.progress(Progress(self.job.name, label, samples, self.total, correct, finished))
