"""Anchored: what the frozen source makes of the answers to the very same inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.estimators._anchor import Anchor, latest
from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.estimators._proportions import variety
from holdfast.models.classifier import Classifier
from holdfast.records import Estimate

__all__ = ["Anchored"]

OFF_BY = 0.06  # standard deviation, besides the scatter of samples: measured, see docs/estimators.md
NINETY_PERCENT = 1.645  # standard deviations to either side


@ESTIMATORS.register("anchored")
class Anchored(Estimator):
    """Takes the probability that an anchor gives to the answers for the accuracy, and says how sure that is. Ours.

    The anchor is a frozen copy of the source that follows the statistics of the inputs and nothing else: it costs one
    pass, and does not collapse with the network it watches. Its probabilities are reweighed by the classes that the
    last `window` samples seem to have, so that classes in bursts are not taken for collapse. Where the source is not
    half as sure of anything as the network is of its answers, and these have not collapsed, the accuracy is unknown.
    Labels that come with held-out source data set the anchor's temperature. Every `compare_every` batches (0: never)
    the network answers once more with what it has learnt left out: by the same measure that is the `gain` of adapting.
    """

    predictions: Tensor | None
    confidences: Tensor | None
    batches: int

    def __init__(
        self, *, temperature: float = 1.75, source_share: float = 0.5, window: int = 64, compare_every: int = 8
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature={temperature} turns probabilities upside down; pass a positive number")
        if not 0 <= source_share <= 1:
            raise ValueError(f"source_share={source_share} is not a share; pass a number between 0 and 1")
        if window < 1:
            raise ValueError(f"window={window} holds no sample; pass at least 1")
        if compare_every < 0:
            raise ValueError(f"compare_every={compare_every} is no number of batches; pass at least 1, or 0 for never")
        self.temperature, self.source_share, self.window = temperature, source_share, window
        self.compare_every = compare_every
        self.anchor = Anchor(temperature=temperature, source_share=source_share, window=window)
        self.add_state("predictions", None)  # for the last samples, (samples,)
        self.add_state("confidences", None)  # of these predictions
        self.add_state("batches", 0)

    @property
    def needs(self) -> Literal["anything"]:
        """Held-out labels, where there are some."""
        return "anything"

    @property
    def compares(self) -> bool:
        """Whether it was told to."""
        return self.compare_every > 0

    def prepare(self, source: Classifier) -> None:
        """Copy the source."""
        self.anchor.prepare(source)

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the anchor's temperature."""
        self.anchor.fit(batches)

    def estimate(self, seen: Observation) -> Estimate:
        """Return the anchor's mean probability of the answers over the window, with the interval of nine in ten."""
        self.batches += 1
        anchored = self.anchor.probabilities(seen.inputs)
        if anchored is None:
            return Estimate(math.nan, unknown="the source itself answers with non-finite numbers")
        confidences, predictions = (seen.logits / self.anchor.now_temperature).softmax(1).max(1)
        self.predictions = latest(self.predictions, predictions, self.window)
        self.confidences = latest(self.confidences, confidences, self.window)
        sure, source_sure = float(self.confidences.mean()), float(anchored.amax(1).mean())
        if source_sure < sure / 2 and not collapsed(self.predictions, anchored):
            return Estimate(
                math.nan, unknown=f"the network is {sure:.0%} sure of its answers, the source {source_sure:.0%}"
            )
        beliefs = anchored.gather(1, self.predictions[:, None])[:, 0]
        value = float(beliefs.mean())
        scatter = float((beliefs * (1 - beliefs)).sum().sqrt()) / len(beliefs)
        reach = NINETY_PERCENT * math.hypot(scatter, OFF_BY)
        due = self.compares and self.batches % self.compare_every == 0
        gain = gain_over(seen.logits_with(seen.origin), seen.logits, anchored) if due else None
        return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), gain=gain)


def gain_over(unadapted: Tensor, logits: Tensor, anchored: Tensor) -> float:
    """Return by how much the anchor's probability of the answers exceeds that of the unadapted network's answers.

    Both are judged on the same batch, the last rows of `anchored`, so that what makes a batch hard does not matter.

    >>> gain_over(torch.eye(2)[[0, 0]], torch.eye(2), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    0.3
    """
    opinion = anchored[-len(logits) :].double()
    now, before = (opinion.gather(1, given.argmax(1)[:, None]).mean() for given in (logits, unadapted))
    return round(float(now - before), 6)


def collapsed(answers: Tensor, anchored: Tensor) -> bool:
    """Return whether answers are of fewer than half as many classes as the anchor finds in the same samples.

    >>> collapsed(torch.tensor([0, 0, 0]), torch.eye(3)), collapsed(torch.tensor([0, 0, 0]), torch.eye(3)[[0, 0, 0]])
    (True, False)
    """
    answered = torch.bincount(answers, minlength=anchored.shape[1]) / len(answers)
    return variety(answered) < variety(anchored.mean(0)) / 2
