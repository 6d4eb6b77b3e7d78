"""A race of runs on one stream: after some batches, those that have lost by a confidence bound stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from statistics import fmean

import numpy as np

from holdfast.benchmark import Progress
from holdfast.report import RunRecord
from holdfast.report.compare import between, paired_difference

LOOKS = 4  # at a run of full length, equally spaced
WIDER = 1.28  # than an interval at 95 %: it holds at all looks together (Bonferroni)
UNSEEN = 3.0  # differences among all samples that may exist if none was seen, at 95 % ("rule of three")
ALIKE = 1.1  # ratio of times up to which two candidates cost the same


class BeatenError(Exception):
    """A candidate has lost; its run ends here."""


class Race:
    """Follows runs in lock-step, batch by batch, and stops a run by raising `BeatenError` in it.

    A candidate has lost to another that costs no more and is better, or that is cheaper and at most `worth` points
    worse; both by an interval over batches. More expensive candidates are not compared with
    it: a cheap one may be enough.
    """

    def __init__(self, base: str, worth: float, tell: Callable[[Progress], None] | None) -> None:
        self.base, self.worth = base, worth
        self.lost: dict[str, str] = {}  # candidate -> the one that beat it
        self._tell = tell or (lambda _: None)
        self._names: dict[str, tuple[str, int]] = {}  # of a job: candidate and seed
        self._curves: dict[tuple[str, int], dict[int, int]] = {}  # samples seen -> correct
        self._seconds: dict[str, float] = {}  # per sample
        self._next_look = 0.0

    def start(self, jobs: Mapping[str, tuple[str, int]], known: Iterable[RunRecord], length: int) -> None:
        """Begin with the runs of another seed; `known` are runs that an earlier attempt left on disk."""
        self._names |= jobs
        self._next_look = length / LOOKS
        for run in known:
            if not len(run.rows):
                continue
            rows, name = run.rows, (run.manifest.recipe.label, run.manifest.seed)
            self._curves[name] = dict(zip(rows.ends.tolist(), np.cumsum(rows.correct).tolist(), strict=True))
            self._seconds[name[0]] = float(np.median(rows.step_seconds) / rows.size[0])

    def __call__(self, progress: Progress) -> None:
        """Note a batch of a run, and stop the run if it has lost."""
        name, seed = self._names[progress.job]
        self._curves.setdefault((name, seed), {})[progress.samples] = progress.correct
        if progress.seconds:
            self._seconds[name] = progress.seconds / progress.samples
        if not progress.finished and progress.samples > self._next_look:
            self.look()
            self._next_look += (progress.total or progress.samples) / LOOKS
        if name in self.lost and not progress.finished:
            better = self.lost[name]
            self._tell(replace(progress, label=f"{progress.label}, lost to {better}", finished=True))
            raise BeatenError(f"{better} is at least as good for its cost")
        self._tell(progress)

    def look(self) -> None:
        """Find the candidates that have lost by now."""
        for name in [name for name in self._seconds if name != self.base and name not in self.lost]:
            rivals = [rival for rival in self._seconds if rival not in (name, *self.lost)]
            rivals = [rival for rival in rivals if self._reached(rival) >= self._reached(name)]  # the others failed
            better = next((rival for rival in rivals if self._beats(rival, name)), None)
            if better is not None:
                self.lost[name] = better

    def _reached(self, name: str) -> int:
        """Return how many samples a candidate has seen, except for the batch that is under way."""
        curves = [sorted(curve) for (known, _), curve in self._curves.items() if known == name]
        return sum(ends[-1] for ends in curves[:-1]) + (curves[-1][-2] if len(curves[-1]) > 1 else 0)

    def _beats(self, rival: str, name: str) -> bool:
        own, others = self._seconds[name], self._seconds[rival]
        if others > ALIKE * own:
            return False
        lead, half_width = self.lead(name, rival)
        most = 100 * (lead + WIDER * half_width)
        return bool(most < (self.worth if own > ALIKE * others else 0.0))

    def lead(self, name: str, rival: str) -> tuple[float, float]:
        """Return how far a candidate is above another on the batches of both, and half its 95 % interval."""
        seeds = [seed for known, seed in self._curves if known == name and (rival, seed) in self._curves]
        pairs = [between(self._curves[rival, seed], self._curves[name, seed]) for seed in seeds]
        compared = np.array([paired_difference(*pair) for pair in pairs])
        weights = np.array([pair[0].sum() for pair in pairs]) / sum(pair[0].sum() for pair in pairs)
        half_width = float(np.sqrt(weights**2 @ compared[:, 1] ** 2))
        return float(weights @ compared[:, 0]), max(half_width, UNSEEN / sum(pair[0].sum() for pair in pairs))

    def gain(self, name: str) -> tuple[float, float]:
        """Return how far a candidate is above the base, and half its 95 % interval.

        One that was stopped has seen a part of the stream only: its distance from the one it lost to is added to that
        one's gain.
        """
        if name == self.base:
            return 0.0, 0.0
        if name not in self.lost:
            return self.lead(name, self.base)
        (gain, margin), (lead, own_margin) = self.gain(self.lost[name]), self.lead(name, self.lost[name])
        return gain + lead, math.hypot(margin, own_margin)

    def accuracy(self, name: str) -> float:
        """Return the share of correct predictions, mean over the seeds."""
        ends = [max(curve.items()) for (known, _), curve in self._curves.items() if known == name]
        return fmean(correct / samples for samples, correct in ends)

    def seeds(self, name: str) -> int:
        """Return with how many seeds a candidate was run."""
        return sum(known == name for known, _ in self._curves)

    def cost(self, name: str) -> float:
        """Return the time of a step as a multiple of the base's."""
        return self._seconds[name] / self._seconds[self.base]
