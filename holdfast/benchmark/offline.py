"""The offline protocols: adapt to a set for several epochs, then predict it once with other draws.

A set is an episode of the stream, or all of it; each starts from the source model. The model adapts to the set as the
redrawn stream renders it: the same samples with their corruptions drawn again (Shao et al., arXiv 2511.18421).
`offline-fixed` uses no labels. `offline-oracle` measures a score on the redrawn set with labels before the first epoch
and after each; the last of the best epochs predicts, as published. The score is that of the data set, by default the
accuracy.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.benchmark.attempt import Attempt
from holdfast.benchmark.prefetch import Prefetch, fed, placed
from holdfast.benchmark.scores import SCORES, accuracy
from holdfast.benchmark.set_scores import score_set
from holdfast.machine.stopping import Stopped, stop_if_asked, was_asked_to_stop
from holdfast.randomness import seeded_rng
from holdfast.records import Batch

CHUNK = 64  # samples rendered at once


@runtime_checkable
class SchedulesByEpoch(Protocol):
    """A method with a schedule by epochs."""

    def prepare_offline(self, batches_per_epoch: int) -> None:
        """Learn before the first epoch how many batches an epoch has."""


@runtime_checkable
class SeesWholeSet(Protocol):
    """A method that looks at the whole set before each epoch."""

    def begin_epoch(self, batches: Iterable[Tensor], order: Tensor) -> None:
        """See all inputs of the set before an epoch over them, which comes in the order given, (n,)."""


@dataclass
class SetState:
    """The progress of a set, saved with the state so that an interrupted run resumes from it."""

    epoch: int = 0  # the current one, counted from 0
    seen: int = 0  # samples of the current epoch
    predicting: bool = False
    chosen_epoch: int | None = None
    last_correct: int | None = None  # of the last epoch, on the draws that are predicted
    curve: list[float] = field(default_factory=list)  # score on the redrawn set after 0, 1, … epochs
    accuracies: list[float] = field(default_factory=list)  # the same, as accuracy
    losses: list[float] = field(default_factory=list)  # mean loss of each epoch
    forwards: float = 0.0  # in samples
    backwards: float = 0.0
    seconds: float = 0.0
    resets: int = 0
    skipped: int = 0


def offline(attempt: Attempt, prefetch: Prefetch, redrawn: Prefetch) -> dict[str, Any]:
    """Adapt to each set and predict it, from the attempt's checkpoint on; return a summary of each.

    The sets are read from `prefetch`, and adapted to as `redrawn` reads them.
    """
    if attempt.total is None:
        raise ValueError("offline protocols need a stream of known length; set samples in the suite")
    sets: list[dict[str, Any]] = list(attempt.checkpoint.offline.get("sets", []))
    for start, stop in attempt.stream.episodes(attempt.total)[len(sets) :]:
        began = attempt.checkpoint.offline.get("now")
        if began is None:
            attempt.model.reset()
        now = SetState(**(began or {}))
        attempt.note({"sets": sets, "now": None})
        sets.append(OfflineSet(attempt, prefetch, redrawn, (start, stop), now, list(sets)).run())
        attempt.note({"sets": list(sets), "now": None})
    return {"sets": sets}


class OfflineSet:
    """A running set."""

    def __init__(
        self,
        attempt: Attempt,
        prefetch: Prefetch,
        redrawn: Prefetch,
        span: tuple[int, int],
        now: SetState,
        before: list[dict[str, Any]],
    ) -> None:
        self.attempt, self.prefetch, self.redrawn, self.now, self.before = attempt, prefetch, redrawn, now, before
        self.start, self.stop = span
        self.job, self.model, self.size = attempt.job, attempt.model, self.stop - self.start
        self.oracle = self.job.protocol == "offline-oracle"
        self.epochs = self.job.epochs if self.model.method.learns else 0

    def run(self) -> dict[str, Any]:
        """Adapt, choose the epoch if the protocol has an oracle, predict, and return a summary."""
        if not self.now.predicting:
            self._adapt()
            self._choose()
            self.now.predicting = True
        self._predict()
        correct = self.attempt.recorder.correct - sum(one["correct"] for one in self.before)
        now, epochs = self.now, self.epochs
        summary: dict[str, Any] = {
            "domains": list(dict.fromkeys(self._domains())),
            "samples": self.size,
            "correct": correct,
            "epochs": epochs,
            "losses": now.losses,
            "resets": now.resets,
            "skipped": now.skipped,
            "scores": score_set(self.model, self._stream_from(self.start), self.job.scores),
        }
        if self.oracle:
            last = correct if now.last_correct is None else now.last_correct
            summary |= {"chosen_epoch": now.chosen_epoch, "redrawn_accuracy": now.accuracies, "last_correct": last}
            if self.job.oracle_score != "accuracy":
                summary |= {"oracle_score": self.job.oracle_score, "redrawn_score": now.curve}
        return summary

    def _adapt(self) -> None:
        """Run the epochs; with an oracle, keep the best state."""
        if not self.epochs:
            self.now.chosen_epoch = 0
            return
        with _rendered(self.redrawn, self.start, self.stop, self.attempt.folder / "redrawn.npy") as copy:
            self.model.enter_domain(next(iter(self._domains())))
            while True:
                if self.oracle and len(self.now.curve) == self.now.epoch:
                    self._measure(copy)
                if self.now.epoch == self.epochs:
                    return
                self._epoch(copy)
                self.now.epoch, self.now.seen = self.now.epoch + 1, 0

    def _epoch(self, copy: NDArray[Any]) -> None:
        now, size = self.now, self.job.batch_size
        order = seeded_rng(self.job.seed, f"order of epoch {now.epoch}", self.start).permutation(self.size)
        if not now.seen:
            self._begin(copy, order)
            now.losses.append(0.0)
        batches = -(-self.size // size)
        for first in range(now.seen, self.size, size):
            inputs = placed(torch.from_numpy(copy[order[first : first + size]]), self.job.placement)
            began = time.perf_counter()
            step = self.model.step(inputs)
            self.job.placement.wait()
            now.seconds += time.perf_counter() - began
            now.forwards += step.forwards * len(inputs)
            now.backwards += step.backwards * len(inputs)
            now.losses[-1] += (step.loss or 0.0) / batches
            now.resets += step.recovered is not None
            now.skipped += step.skipped is not None
            now.seen = first + len(inputs)
            self._keep()
            self.attempt.tell(f"epoch {now.epoch + 1} of {self.epochs}")

    def _begin(self, copy: NDArray[Any], order: NDArray[np.int64]) -> None:
        """Show the whole set to a method that asks for it, and count what that costs."""
        method, began = self.model.method, time.perf_counter()
        if not isinstance(method, SeesWholeSet):
            return
        forwarded = method.samples_forwarded
        method.begin_epoch(self._batches(copy), self.job.placement.move(torch.from_numpy(order)))
        self.job.placement.wait()
        self.now.forwards += method.samples_forwarded - forwarded
        self.now.seconds += time.perf_counter() - began

    def _measure(self, copy: NDArray[Any]) -> None:
        """Measure the score on the redrawn set with labels, and save the state if it is the best so far."""
        labels = self.attempt.stream.data.labels[self.attempt.stream.plan.picks(self.start, self.stop).samples]
        logits = torch.cat([self.model.predict(inputs).logits for inputs in self._batches(copy)])
        known = labels, logits.cpu().numpy()
        score = SCORES[self.job.oracle_score](*known)
        if score >= max(self.now.curve, default=0.0):
            self.now.chosen_epoch = self.now.epoch
            self.model.save(self._best(self.now.epoch))
        self.now.curve.append(score)
        self.now.accuracies.append(accuracy(*known))

    def _choose(self) -> None:
        """Count what the last epoch would have predicted correctly, then go back to the best epoch."""
        if self.oracle and self.now.chosen_epoch != self.epochs:
            self.now.last_correct = sum(self._count(batch) for batch in self._stream_from(self.start))
            self.model.load(self._best(self.now.chosen_epoch or 0))

    def _count(self, batch: Batch) -> int:
        predicted = self.model.predict(batch.inputs).logits.argmax(1).cpu().numpy()
        return int((predicted == batch.labels).sum())

    def _predict(self) -> None:
        """Predict the set; the cost of each sample includes its share of the adaptation."""
        now, size = self.now, self.size
        for batch in self._stream_from(self.attempt.recorder.samples):
            began = time.perf_counter()
            step = self.model.predict(batch.inputs)
            self.job.placement.wait()
            seconds = time.perf_counter() - began + now.seconds * len(batch) / size
            forwards, backwards = step.forwards + now.forwards / size, step.backwards + now.backwards / size
            self._note()
            self.attempt.record(batch, replace(step, forwards=forwards, backwards=backwards), seconds)
            self._stop_if_asked()

    def _stream_from(self, position: int) -> Iterator[Batch]:
        size = self.job.batch_size
        spans = self.attempt.stream.spans(position, self.stop, size)
        return fed(self.prefetch.batches(spans, (self.stop - position) / size), self.job.placement)

    def _batches(self, copy: NDArray[Any]) -> Iterator[Tensor]:
        for first in range(0, len(copy), self.job.batch_size):
            stored = torch.from_numpy(np.array(copy[first : first + self.job.batch_size]))
            yield placed(stored, self.job.placement)

    def _domains(self) -> Iterator[str]:
        picks = self.attempt.stream.plan.picks(self.start, self.stop)
        return (self.attempt.stream.domains[domain] for domain in picks.domains)

    def _keep(self) -> None:
        self._note()
        if self.attempt.save_when_due() and self.oracle:
            self._forget_others()
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if was_asked_to_stop():
            self.attempt.save()
            raise Stopped

    def _note(self) -> None:
        self.attempt.note({"sets": self.before, "now": asdict(self.now)})

    def _best(self, epoch: int) -> Path:
        """Return the file of an epoch of this set: a saved state may be older, and then still needs its own."""
        return self.attempt.folder / f"best-{self.start}-{epoch}.safetensors"

    def _forget_others(self) -> None:
        """Delete the best epochs that the saved state does not refer to any more."""
        for path in self.attempt.folder.glob("best-*.safetensors"):
            if path != self._best(self.now.chosen_epoch or 0):
                path.unlink()


@contextmanager
def _rendered(prefetch: Prefetch, start: int, stop: int, path: Path) -> Iterator[NDArray[Any]]:
    """Render the inputs of a set once for all epochs into a file, and delete it at the end of the block."""
    example = prefetch.stream.read(start, start + 1).inputs.numpy()
    copy = np.lib.format.open_memmap(path, "w+", example.dtype, (stop - start, *example.shape[1:]))
    spans = [(first, min(first + CHUNK, stop)) for first in range(start, stop, CHUNK)]
    try:
        for (begin, end), batch in zip(spans, prefetch.batches(spans, len(spans)), strict=True):
            copy[begin - start : end - start] = batch.inputs.numpy()
            stop_if_asked()
        yield copy
    finally:
        path.unlink()
