"""Anchored: the probability that a copy of the source gives to the predictions, on the same inputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.anchor import Anchor, follow_inputs, latest, variety
from holdfast.blocks.norm import paused
from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.evidence import scale_from_accuracy, scale_from_labels
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
    source set the anchor's temperature, or held-out inputs together with `clean_accuracy`, the known accuracy of the
    source on such inputs; the interval is wider by the error of either. Every `compare_every` batches (0: never) the
    source predicts the batch too: the difference by the same measure is the `gain` over the source.
    """

    predictions: Tensor | None
    confidences: Tensor | None
    batches: int
    scale_error: float

    def __init__(
        self,
        *,
        temperature: float = 1.75,
        source_share: float = 0.5,
        window: int = 64,
        compare_every: int = 8,
        clean_accuracy: float | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= source_share <= 1:
            raise ValueError(f"source_share must be between 0 and 1, got {source_share}")
        if compare_every < 0:
            raise ValueError(f"compare_every must be 0 (never) or a positive number of batches, got {compare_every}")
        if clean_accuracy is not None and not 0 < clean_accuracy < 1:
            raise ValueError(f"clean_accuracy must be a share between 0 and 1, got {clean_accuracy}")
        self.temperature, self.source_share, self.window = temperature, source_share, window
        self.compare_every, self.clean_accuracy = compare_every, clean_accuracy
        self.anchor = Anchor(temperature=temperature, window=window)
        self.network: Classifier | None = None
        self.add_state("predictions", None)  # for the last samples, (samples,)
        self.add_state("confidences", None)  # of these predictions
        self.add_state("batches", 0)
        self.add_state("scale_error", 0.0, kept=True)  # of the fitted temperature, in accuracy

    @property
    def needs(self) -> Literal["anything", "inputs"]:
        """Held-out labels if there are any; inputs if an accuracy on them is known."""
        return "anything" if self.clean_accuracy is None else "inputs"

    @property
    def compares(self) -> bool:
        """Whether `compare_every` asks for it."""
        return self.compare_every > 0

    def prepare(self, source: Classifier) -> None:
        """Copy the source, and let the BatchNorm layers of the copy follow their inputs."""
        self.network = copy.deepcopy(source).eval().requires_grad_(False)
        follow_inputs(self.network, source_share=self.source_share, window=self.window)
        _quicken(self.network)
        self.network.samples_forwarded = 0

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the anchor's temperature to held-out source data that have labels, or to their known accuracy."""
        labelled = [(inputs, labels) for inputs, labels in batches if labels is not None]
        if labelled:
            logits = torch.cat([self._anchor_network(inputs) for inputs, _ in labelled]).double().numpy(force=True)
            scale = scale_from_labels(logits, torch.cat([labels for _, labels in labelled]).numpy(force=True))
        elif self.clean_accuracy is not None:
            logits = torch.cat([self._anchor_network(inputs) for inputs, _ in batches]).double().numpy(force=True)
            scale = scale_from_accuracy(logits, self.clean_accuracy)
        else:
            return
        self.anchor.fitted_temperature, self.scale_error = scale.temperature, scale.error
        self.reset_state()

    @property
    def _anchor_network(self) -> Classifier:
        if self.network is None:
            raise ValueError("the anchor has no source network; pass the estimator to holdfast.adapt")
        return self.network

    def estimate(self, seen: Observation) -> Estimate:
        """Return the anchor's mean probability of the predictions over the window, with a 90 % interval."""
        self.batches += 1
        opinion = self.anchor.judge(self._anchor_network, seen.inputs)
        if opinion is None:
            return Estimate(math.nan, unknown="non-finite logits of the source")
        anchored = opinion.recent
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
        reach = NINETY_PERCENT * math.hypot(scatter, OFF_BY, self.scale_error)
        due = self.compares and self.batches % self.compare_every == 0
        gain = gain_over(seen.source_logits, seen.logits, anchored) if due else None
        return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), gain=gain)


@torch.no_grad()
def _quicken(network: Classifier) -> None:
    """Store the channels of images last, which is a third faster, unless the network needs another order."""
    pair = network.trial_inputs()
    network.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with paused(network):
            network(pair)
    except RuntimeError:  # it flattens its feature maps with view()
        network.module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def gain_over(source: Tensor, logits: Tensor, anchored: Tensor) -> float:
    """Return the anchor's mean probability of the predictions minus that of the source's predictions.

    Both are judged on the same batch, the last rows of `anchored`, so a hard batch counts against neither.

    >>> gain_over(torch.eye(2)[[0, 0]], torch.eye(2), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    0.3
    """
    opinion = anchored[-len(logits) :].double()
    now, before = (opinion.gather(1, given.argmax(1)[:, None]).mean() for given in (logits, source))
    return round(float(now - before), 6)


def collapsed(predictions: Tensor, anchored: Tensor) -> bool:
    """Return whether predictions hold less than half as many classes as the anchor finds in the same samples.

    >>> collapsed(torch.tensor([0, 0, 0]), torch.eye(3)), collapsed(torch.tensor([0, 0, 0]), torch.eye(3)[[0, 0, 0]])
    (True, False)
    """
    predicted = torch.bincount(predictions, minlength=anchored.shape[1]) / len(predictions)
    return variety(predicted) < variety(anchored.mean(0)) / 2
