"""A running job: its parts, its progress, and how both are saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.benchmark.job import Job
from holdfast.benchmark.peak_memory import MARKS, peak_mib
from holdfast.benchmark.recorder import Recorder, make_row
from holdfast.model.adapted import AdaptedModel
from holdfast.records import Batch, Step
from holdfast.streams import Stream


@dataclass(frozen=True)
class Progress:
    """How many samples of a run are done, and how many of them are correct."""

    job: str  # name of the job
    label: str  # of its recipe
    samples: int  # that are done
    total: int | None  # samples of the whole run; None: unknown
    correct: int  # predictions that are right, of those done
    finished: bool = False  # whether the run has ended
    seconds: float = 0.0  # that its steps have taken here


Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class Checkpoint:
    """The position in the stream of a saved state; all rows before it are on disk."""

    samples: int = 0
    correct: int = 0
    row_bytes: int = 0
    offline: Mapping[str, Any] = field(default_factory=dict)  # added by offline protocols
    busy: int = 0  # batches that pass before the next is adapted to, on a stream that does not wait


@dataclass
class Attempt:
    """What a protocol works with: the protocol predicts batches, the attempt records them and saves the state."""

    job: Job
    stream: Stream
    model: AdaptedModel
    recorder: Recorder
    folder: Path
    total: int | None
    checkpoint_seconds: float
    progress: Tell
    checkpoint: Checkpoint = Checkpoint()
    failure: Exception | None = None  # that ended it, while others of its group went on
    peaks: dict[str, float] = field(default_factory=dict)
    saved: float = field(default_factory=time.monotonic)
    seconds: float = 0.0  # that steps have taken

    def fail(self, error: Exception) -> None:
        """End here by an error, while others of its group go on."""
        self.failure = error

    def note(self, offline: Mapping[str, Any]) -> None:
        """Remember for the next saved state how far an offline protocol is."""
        self.checkpoint = replace(self.checkpoint, offline=offline)

    def record(self, batch: Batch, step: Step, seconds: float) -> None:
        """Record a predicted batch, and save the state if it is time to."""
        self.recorder.write(make_row(batch, step, seconds))
        self.seconds += seconds
        for share in MARKS:
            if self.total and self.recorder.samples - len(batch) < share * self.total <= self.recorder.samples:
                self.peaks[f"{share:.0%}"] = peak_mib()
        self.save_when_due()
        self.tell()

    def save_when_due(self) -> bool:
        """Save the state if `checkpoint_seconds` have passed since the last time, and return whether it was saved."""
        due = time.monotonic() - self.saved >= self.checkpoint_seconds
        if due:
            self.save()
        return due

    def save(self) -> None:
        """Save the rows, then the state: a state may be older than the rows on disk, but not newer."""
        recorder = self.recorder
        row_bytes = recorder.sync()
        self.checkpoint = replace(
            self.checkpoint, samples=recorder.samples, correct=recorder.correct, row_bytes=row_bytes
        )
        self.model.save(self.folder / "state.safetensors", note=asdict(self.checkpoint))
        self.saved = time.monotonic()

    def let_pass(self, batches: int) -> None:
        """Adapt to no batch before this many have passed."""
        self.checkpoint = replace(self.checkpoint, busy=batches)

    def tell(self, doing: str = "", *, finished: bool = False) -> None:
        """Report the progress."""
        label = f"{self.job.label}, {doing}" if doing else self.job.label
        correct, samples = self.recorder.correct, self.recorder.samples
        self.progress(Progress(self.job.name, label, samples, self.total, correct, finished, self.seconds))
