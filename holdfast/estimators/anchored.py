"""Anchored: what the frozen source makes of the answers to the very same inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.estimators.anchor import Anchor, latest
from holdfast.estimators.base import ESTIMATORS, Estimator
from holdfast.estimators.observation import Observation
from holdfast.estimators.proportions import variety
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
    Labels that come with held-out source data set the anchor's temperature.
    """

    answers: Tensor | None
    confidences: Tensor | None

    def __init__(self, *, temperature: float = 1.75, source_share: float = 0.5, window: int = 64) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature={temperature} turns probabilities upside down; pass a positive number")
        if not 0 <= source_share <= 1:
            raise ValueError(f"source_share={source_share} is not a share; pass a number between 0 and 1")
        if window < 1:
            raise ValueError(f"window={window} holds no sample; pass at least 1")
        self.temperature, self.source_share, self.window = temperature, source_share, window
        self.anchor = Anchor(temperature=temperature, source_share=source_share, window=window)
        self.add_state("answers", None)  # to the last samples, (samples,)
        self.add_state("confidences", None)  # of these answers

    @property
    def needs(self) -> Literal["anything"]:
        """Held-out labels, where there are some."""
        return "anything"

    def prepare(self, source: Classifier) -> None:
        """Copy the source."""
        self.anchor.prepare(source)

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the anchor's temperature."""
        self.anchor.fit(batches)

    def estimate(self, seen: Observation) -> Estimate:
        """Return the anchor's mean probability of the answers over the window, with the interval of nine in ten."""
        anchored = self.anchor.probabilities(seen.inputs)
        if anchored is None:
            return Estimate(math.nan, unknown="the source itself answers with non-finite numbers")
        confidences, answers = (seen.logits / self.anchor.now_temperature).softmax(1).max(1)
        self.answers = latest(self.answers, answers, self.window)
        self.confidences = latest(self.confidences, confidences, self.window)
        sure, source_sure = float(self.confidences.mean()), float(anchored.amax(1).mean())
        if source_sure < sure / 2 and not collapsed(self.answers, anchored):
            return Estimate(
                math.nan, unknown=f"the network is {sure:.0%} sure of its answers, the source {source_sure:.0%}"
            )
        beliefs = anchored.gather(1, self.answers[:, None])[:, 0]
        value = float(beliefs.mean())
        scatter = float((beliefs * (1 - beliefs)).sum().sqrt()) / len(beliefs)
        reach = NINETY_PERCENT * math.hypot(scatter, OFF_BY)
        return Estimate(value, max(0.0, value - reach), min(1.0, value + reach))


def collapsed(answers: Tensor, anchored: Tensor) -> bool:
    """Return whether answers are of fewer than half as many classes as the anchor finds in the same samples.

    >>> collapsed(torch.tensor([0, 0, 0]), torch.eye(3)), collapsed(torch.tensor([0, 0, 0]), torch.eye(3)[[0, 0, 0]])
    (True, False)
    """
    answered = torch.bincount(answers, minlength=anchored.shape[1]) / len(answers)
    return variety(answered) < variety(anchored.mean(0)) / 2
