"""The range of inputs that a model is used to, and batches far outside of it."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.models.normalised import Normalise
from holdfast.models.preprocessing import preprocessing_of
from holdfast.state import Stateful

FAR = 10.0  # times the usual magnitude
FULL_SCALE = 1.0  # of images and waveforms
LARGEST = 2.0**31  # of a first batch of which nothing is known: 32-bit audio
VOTES = 15  # batches that decide what is usual, when nothing else has


class InputRange(Stateful):
    """Learns the usual magnitude of inputs, max |x| of a batch, and refuses batches that exceed it ten times.

    It is known from the start when the network normalises images in 0..1 itself (`known`) or source inputs are shown.
    Otherwise it is the median of the first 15 batches, refused ones included: a wrong first batch is outvoted, and
    later wrong ones change nothing. For images and waveforms it is at least 1, so that a dark or quiet start does not
    make ordinary inputs suspicious. Corruptions, gain and normalised inputs stay below ten times; 0..255 instead of
    0..1, or 16-bit audio instead of -1..1, exceed it.

    >>> usual = InputRange("image")
    >>> usual.refusal(0.9), usual.refusal(255.0)
    (None, 'inputs reach 255, over 10 times the usual 1')
    """

    votes: list[float]
    shown: float | None

    def __init__(self, kind: Literal["image", "audio", "other"], *, known: float | None = None) -> None:
        super().__init__()
        self.floor = 0.0 if kind == "other" else FULL_SCALE
        self.add_state("votes", [])  # magnitudes of the first batches
        self.add_state("shown", known, kept=True)  # largest magnitude of source inputs

    def show(self, inputs: Tensor) -> None:
        """Take the magnitude of source inputs for usual."""
        reached = float(magnitude(inputs))
        if math.isfinite(reached):
            self.shown = max(self.shown or 0.0, reached)

    def refusal(self, reached: float) -> str | None:
        """Return why a batch of this magnitude is refused, or None; the first ones also vote on what is usual."""
        usual = self.usual
        if self.shown is None and len(self.votes) < VOTES and 0 < reached < math.inf:
            self.votes.append(reached)
        if usual is None:
            return None if reached <= LARGEST else f"inputs reach {reached:.3g}, over {LARGEST:.3g}"  # nan too
        return (
            None if reached <= FAR * usual else f"inputs reach {reached:.3g}, over {FAR:g} times the usual {usual:.3g}"
        )

    @property
    def usual(self) -> float | None:
        """The usual magnitude; None before the first batch."""
        if self.shown is not None:
            return max(self.shown, self.floor) or None
        return max(sorted(self.votes)[(len(self.votes) - 1) // 2], self.floor) if self.votes else None

    def check_state(self) -> None:
        """Refuse magnitudes that are not positive numbers."""
        if not all(0 < vote < math.inf for vote in self.votes) or not 0 <= (self.shown or 0.0) < math.inf:
            raise ValueError("magnitudes of inputs must be positive numbers")


def known_range(network: nn.Module) -> float | None:
    """Return the largest magnitude of inputs to networks that a zoo prepares, or that normalise images in [0, 1]."""
    normalises = any(isinstance(part, Normalise) for part in network.modules())
    return 1.0 if normalises or preprocessing_of(network) is not None else None


def magnitude(inputs: Tensor) -> Tensor:
    """Return max |x|: one pass over the values, `nan` or `inf` when any of them is not finite.

    >>> magnitude(torch.tensor([0.5, -2.0]))
    tensor(2.)
    """
    low, high = torch.aminmax(inputs.detach())
    return torch.maximum(high, -low)
