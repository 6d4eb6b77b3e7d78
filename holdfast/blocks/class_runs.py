"""Whether the classes of a stream come in runs, told from predicted labels alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.state import Stateful

__all__ = ["ClassRuns"]

FURTHEST, NEAREST = 64, 17  # how many samples apart those are that chance is taken from
DOUBT = 2.0  # standard errors that are taken off


class ClassRuns(Stateful):
    """Compares how often neighbours agree with how often samples further apart do, over about the last samples.

    Labels that are wrong in the same way, as under a strong corruption, agree at any distance while it lasts; a run of
    one class shows at the shortest. The result does not depend on how the stream is cut into batches.

    >>> runs, mixed = ClassRuns(), ClassRuns()
    >>> runs.observe(torch.arange(10).repeat_interleave(8).repeat(4))
    >>> mixed.observe(torch.randint(10, (320,), generator=torch.Generator().manual_seed(0)))
    >>> round(runs.correlation, 1), round(mixed.correlation, 1)
    (0.9, 0.0)
    """

    recent: Tensor  # labels, the latest last; -1 before the first
    sums: Tensor  # neighbours that agree, all neighbours, further pairs that agree, all further pairs

    def __init__(self, *, memory_samples: int = 1024) -> None:
        super().__init__()
        if memory_samples < FURTHEST:
            raise ValueError(f"memory_samples={memory_samples} is too short to tell; pass at least {FURTHEST}")
        self.decay = 1 - 1 / memory_samples
        self.add_state("recent", torch.full((FURTHEST,), -1))
        self.add_state("sums", torch.zeros(4, dtype=torch.float64))

    @property
    def correlation(self) -> float:
        """Cohen's κ: by how much of what is left above chance neighbours agree; 0 while nothing is known."""
        return self._above_chance(doubt=0.0)

    @property
    def sure_correlation(self) -> float:
        """What remains of κ after two standard errors: the first batch of any stream has some agreement by luck."""
        return self._above_chance(doubt=DOUBT)

    def _above_chance(self, doubt: float) -> float:
        agree, pairs, far_agree, far_pairs = map(float, self.sums)
        if not far_pairs or far_agree == far_pairs:
            return 0.0
        share, chance = agree / pairs, far_agree / far_pairs
        return (share - chance - doubt * math.sqrt(share * (1 - share) / pairs)) / (1 - chance)

    def observe(self, labels: Tensor) -> None:
        """Take in the predicted labels of the next samples of the stream."""
        self.recent, self.sums = self.recent.to(labels.device), self.sums.to(labels.device)
        stream = torch.cat([self.recent, labels])
        before, own = stream.unfold(0, FURTHEST + 1, 1).split([FURTHEST, 1], 1)  # what came before each label
        known, agree = before >= 0, before == own
        far = slice(0, FURTHEST - NEAREST + 1)
        counts = torch.stack([agree[:, -1], known[:, -1], agree[:, far].sum(1), known[:, far].sum(1)], 1).double()
        age = torch.arange(len(labels) - 1, -1, -1, device=labels.device)
        self.sums = self.sums * self.decay ** len(labels) + self.decay ** age.double() @ counts
        self.recent = stream[-FURTHEST:]
