"""Detect from predicted labels alone whether neighbouring samples of a stream share a class."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.state import Stateful

FURTHEST, NEAREST = 64, 17  # distances, in samples, of the pairs that define chance agreement
DOUBT = 2.0  # standard errors subtracted for the lower bound


class ClassRuns(Stateful):
    """Compare the label agreement of neighbouring samples with that of distant ones, over about the last samples.

    Under a strong corruption, wrong labels agree at any distance; a run of one class raises agreement at the shortest
    only. The result does not depend on how the stream is split into batches.

    >>> runs, mixed = ClassRuns(), ClassRuns()
    >>> runs.observe(torch.arange(10).repeat_interleave(8).repeat(4))
    >>> mixed.observe(torch.randint(10, (320,), generator=torch.Generator().manual_seed(0)))
    >>> round(runs.correlation, 1), round(mixed.correlation, 1)
    (0.9, 0.0)
    """

    recent: Tensor  # labels, the newest last; -1 before the first
    sums: Tensor  # neighbours that agree, all neighbours, further pairs that agree, all further pairs

    def __init__(self, *, memory_samples: int = 1024) -> None:
        super().__init__()
        if memory_samples < FURTHEST:
            raise ValueError(f"memory_samples must be at least {FURTHEST}, got {memory_samples}")
        self.decay = 1 - 1 / memory_samples
        self.add_state("recent", torch.full((FURTHEST,), -1))
        self.add_state("sums", torch.zeros(4, dtype=torch.float64))

    @property
    def correlation(self) -> float:
        """Cohen's κ of the labels of neighbours, (agreement − chance) / (1 − chance); 0 before the first pairs."""
        return self._above_chance(doubt=0.0)

    @property
    def sure_correlation(self) -> float:
        """κ minus two standard errors, since the first batch of any stream agrees somewhat by luck."""
        return self._above_chance(doubt=DOUBT)

    def _above_chance(self, doubt: float) -> float:
        agree, pairs, far_agree, far_pairs = (float(value) for value in self.sums.tolist())
        if not far_pairs or far_agree == far_pairs:
            return 0.0
        share, chance = agree / pairs, far_agree / far_pairs
        return (share - chance - doubt * math.sqrt(share * (1 - share) / pairs)) / (1 - chance)

    def observe(self, labels: Tensor) -> None:
        """Add the predicted labels of the next samples of the stream."""
        labels, self.recent, self.sums = labels.cpu(), self.recent.cpu(), self.sums.cpu()  # a few numbers
        stream = torch.cat([self.recent, labels])
        before, own = stream.unfold(0, FURTHEST + 1, 1).split([FURTHEST, 1], 1)  # the labels before each one
        known, agree = before >= 0, before == own
        far = slice(0, FURTHEST - NEAREST + 1)
        counts = torch.stack([agree[:, -1], known[:, -1], agree[:, far].sum(1), known[:, far].sum(1)], 1).double()
        age = torch.arange(len(labels) - 1, -1, -1, device=labels.device)
        self.sums = self.sums * self.decay ** len(labels) + self.decay ** age.double() @ counts
        self.recent = stream[-FURTHEST:]
