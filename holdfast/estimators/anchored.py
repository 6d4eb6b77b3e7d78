"""Anchored: the probability that a copy of the source gives to the predictions, on the same inputs."""

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

OFF_BY = 0.06  # standard deviation beyond the sampling error; measured, see docs/estimators.md
NINETY_PERCENT = 1.645  # standard deviations to either side


@ESTIMATORS.register("anchored")
class Anchored(Estimator):
    """Estimates accuracy as the anchor's mean probability of the predictions, with an interval. Ours.

    The anchor is a copy of the source that follows only the statistics of the inputs: it costs one pass, and does not
    collapse with the network it judges. Its probabilities are reweighed by the estimated class proportions of the last
    `window` samples, so that class-correlated batches are not mistaken for collapse. The accuracy is unknown when the
    anchor is less than half as confident as the network, unless the predictions have collapsed. Held-out labels of the
    source set the anchor's temperature. Every `compare_every` batches (0: never) the network predicts once more with
    its source weights: the difference by the same measure is the `gain` of adapting.
    """

    predictions: Tensor | None
    confidences: Tensor | None
    batches: int

    def __init__(
        self, *, temperature: float = 1.75, source_share: float = 0.5, window: int = 64, compare_every: int = 8
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        if not 0 <= source_share <= 1:
            raise ValueError(f"source_share must be between 0 and 1, got {source_share}")
        if window < 1:
            raise ValueError(f"window must be at least 1 sample, got {window}")
        if compare_every < 0:
            raise ValueError(f"compare_every must be 0 (never) or a positive number of batches, got {compare_every}")
        self.temperature, self.source_share, self.window = temperature, source_share, window
        self.compare_every = compare_every
        self.anchor = Anchor(temperature=temperature, source_share=source_share, window=window)
        self.add_state("predictions", None)  # for the last samples, (samples,)
        self.add_state("confidences", None)  # of these predictions
        self.add_state("batches", 0)

    @property
    def needs(self) -> Literal["anything"]:
        """Held-out labels if there are any."""
        return "anything"

    @property
    def compares(self) -> bool:
        """Whether `compare_every` asks for it."""
        return self.compare_every > 0

    def prepare(self, source: Classifier) -> None:
        """Copy the source."""
        self.anchor.prepare(source)

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the anchor's temperature."""
        self.anchor.fit(batches)

    def estimate(self, seen: Observation) -> Estimate:
        """Return the anchor's mean probability of the predictions over the window, with a 90 % interval."""
        self.batches += 1
        anchored = self.anchor.probabilities(seen.inputs)
        if anchored is None:
            return Estimate(math.nan, unknown="non-finite logits of the source")
        confidences, predictions = (seen.logits / self.anchor.now_temperature).softmax(1).max(1)
        self.predictions = latest(self.predictions, predictions, self.window)
        self.confidences = latest(self.confidences, confidences, self.window)
        sure, source_sure = float(self.confidences.mean()), float(anchored.amax(1).mean())
        if source_sure < sure / 2 and not collapsed(self.predictions, anchored):
            return Estimate(
                math.nan, unknown=f"confidence is {sure:.0%} for the network and {source_sure:.0%} for the source"
            )
        beliefs = anchored.gather(1, self.predictions[:, None])[:, 0]
        value = float(beliefs.mean())
        scatter = float((beliefs * (1 - beliefs)).sum().sqrt()) / len(beliefs)
        reach = NINETY_PERCENT * math.hypot(scatter, OFF_BY)
        due = self.compares and self.batches % self.compare_every == 0
        gain = gain_over(seen.logits_with(seen.origin), seen.logits, anchored) if due else None
        return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), gain=gain)


def gain_over(unadapted: Tensor, logits: Tensor, anchored: Tensor) -> float:
    """Return the anchor's mean probability of the predictions minus that of the unadapted network's predictions.

    Both are judged on the same batch, the last rows of `anchored`, so a hard batch counts against neither.

    >>> gain_over(torch.eye(2)[[0, 0]], torch.eye(2), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    0.3
    """
    opinion = anchored[-len(logits) :].double()
    now, before = (opinion.gather(1, given.argmax(1)[:, None]).mean() for given in (logits, unadapted))
    return round(float(now - before), 6)


def collapsed(predictions: Tensor, anchored: Tensor) -> bool:
    """Return whether predictions hold less than half as many classes as the anchor finds in the same samples.

    >>> collapsed(torch.tensor([0, 0, 0]), torch.eye(3)), collapsed(torch.tensor([0, 0, 0]), torch.eye(3)[[0, 0, 0]])
    (True, False)
    """
    predicted = torch.bincount(predictions, minlength=anchored.shape[1]) / len(predictions)
    return variety(predicted) < variety(anchored.mean(0)) / 2
