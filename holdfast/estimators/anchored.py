"""Anchored: the probability that a copy of the source gives to the predictions, on the same inputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from holdfast.anchor import FITTING, Anchor, AnchorTemperature, Opinion, Reference, agreement, follows, latest, variety
from holdfast.blocks.norm import paused, source_statistics
from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.models.memory_format import quicken
from holdfast.options.ranges import Count, Positive, Share, Whole
from holdfast.records import Estimate

SUSPICIOUS = 0.2  # shortfall of the network's predictions at which it is compared with the source at once
USUAL_CONFIDENCE = 0.8  # of an anchor without held-out data; at half of it, the source is asked at once
USUAL_TEMPERATURE = 1.75  # suits networks trained to a small training error; until that of the network is known


@ESTIMATORS.register("anchored")
class Anchored(Estimator):
    """Estimates accuracy as the anchor's mean probability of the predictions, with an interval. Ours.

    The anchor is a copy of the source that follows only the statistics of the inputs: it costs one pass, and does not
    collapse with the network it judges. Its probabilities are reweighed by the estimated class proportions of the last
    `window` samples, so that class-correlated batches are not mistaken for collapse. The accuracy is unknown when the
    anchor is less than half as confident as the network, unless the predictions have collapsed.

    The temperature is fitted to held-out labels of the source, or to held-out inputs, best together with
    `clean_accuracy`, the known accuracy of the source on such inputs. Without held-out data it is estimated from the
    agreement of source and anchor on the stream, and the interval is wide; without BatchNorm there is no such
    agreement, and the accuracy is unknown. Where held-out inputs show that stored BatchNorm statistics are those of
    other data, the anchor follows from the inputs' own moments. A given `temperature` is used as it is.

    Every `compare_every` batches (0: never), and when the anchor believes the predictions 20 points less than its own
    or is half as sure as on held-out data, the source predicts the batch too: the difference by the same measure is
    the `gain` over the source. A source that is twice as sure as the anchor judges in its place.
    """

    uses_reference = True
    predictions: Tensor | None
    confidences: Tensor | None
    batches: int

    def __init__(
        self,
        *,
        temperature: Positive | None = None,
        source_share: Share = 0.5,
        window: Count = 64,
        compare_every: Whole = 8,
        clean_accuracy: Share | None = None,
    ) -> None:
        super().__init__()
        self.temperature, self.source_share, self.window = temperature, source_share, window
        self.compare_every, self.clean_accuracy = compare_every, clean_accuracy
        self.anchor_temperature = AnchorTemperature(given=temperature is not None, clean_accuracy=clean_accuracy)
        self.anchor = Anchor(temperature=USUAL_TEMPERATURE if temperature is None else temperature, window=window)
        self.network: Classifier | None = None
        self._reference: Reference | None = None
        self.follows = False  # whether its statistics do
        self.add_state("predictions", None)  # for the last samples, (samples,)
        self.add_state("confidences", None)  # of these predictions
        self.add_state("batches", 0)

    @property
    def needs(self) -> Literal["anything"]:
        """Held-out labels, or inputs, if there are any."""
        return "anything"

    @property
    def compares(self) -> bool:
        """Whether `compare_every` asks for it."""
        return self.compare_every > 0

    def passes(self, batch_size: int) -> float:
        """Return a pass of the anchor, and now and then one of the source."""
        return 1.0 + 1.0 / self.compare_every

    def prepare(self, source: Classifier) -> None:
        """Copy the source, and let the copy follow its inputs."""
        self.network = copy.deepcopy(source).eval().requires_grad_(False)
        self.anchor.tap(self.network, source_share=self.source_share)
        self.follows = follows(self.network)
        self.anchor.reweigh_only_if(self.follows)
        with paused(self.network):
            quicken(self.network, self.network.trial_inputs())

    def refer_to(self, reference: Reference) -> None:
        """Follow inputs from the moments of the source's own data if the stored statistics do not fit them (`fit`)."""
        self._reference = reference

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the anchor's temperature to held-out source data: labels, a known accuracy, or agreement."""
        if not batches or self.anchor_temperature.given:
            return
        network = self._anchor_network
        with source_statistics(network):
            source = [network(inputs) for inputs, _ in batches] if self.follows else []
        logits = self._followed(network, batches)
        if source and self._reference is not None and agreement(logits, source) < FITTING:
            self.anchor.refer_to(network, self._reference)
            logits, source = self._followed(network, batches), []
        unlabelled = all(labels is None for _, labels in batches)
        self.anchor_temperature.fit(
            self.anchor, logits, [labels for _, labels in batches], source if unlabelled else []
        )

    def _followed(self, network: Classifier, batches: Sequence[tuple[Tensor, Tensor | None]]) -> list[Tensor]:
        """Return the anchor's logits for batches in turn, and forget them."""
        logits = [self.anchor.follow(network, inputs) for inputs, _ in batches]
        self.reset_state()
        return logits

    @property
    def _anchor_network(self) -> Classifier:
        if self.network is None:
            raise ValueError("the anchor has no source network; pass the estimator to holdfast.adapt")
        return self.network

    def estimate(self, seen: Observation) -> Estimate:
        """Return the anchor's mean probability of the predictions over the window, with a 90 % interval."""
        self.batches += 1
        network = self._anchor_network
        due = self.compares and self.batches % self.compare_every == 0

        def rescale(logits: Tensor) -> None:
            if self.follows and (self.anchor_temperature.waits or (due and self.anchor_temperature.estimates)):
                self.anchor_temperature.compare(self.anchor, logits, seen.source_logits)

        opinion = self.anchor.judge(network, seen.inputs, rescale=rescale)
        if opinion is None:
            return Estimate(math.nan, unknown="non-finite logits of the source")
        anchored = opinion.recent
        confidences, predictions = (seen.logits / self.anchor.now_temperature).softmax(1).max(1)
        self.predictions = latest(self.predictions, predictions, self.window)
        self.confidences = latest(self.confidences, confidences, self.window)
        due = due or (self.compares and suspicious(predictions, opinion, self.anchor_temperature.clean_confidence))
        gain = None
        if due:
            judge = opinion.or_source(self.anchor.scaled(seen.source_logits.detach()))
            gain = gain_over(seen.source_logits, seen.logits, judge.recent)
        unknown = self.anchor_temperature.unknown(follows=self.follows) or self._surer(anchored)
        if unknown is not None:
            return Estimate(math.nan, gain=gain, unknown=unknown)
        beliefs = anchored.gather(1, self.predictions[:, None])[:, 0]
        assert self.anchor.recent is not None  # of this batch
        return replace(
            self.anchor_temperature.estimate(beliefs, anchored, self.anchor.recent, follows=self.follows), gain=gain
        )

    def _surer(self, anchored: Tensor) -> str | None:
        """Return that the network is twice as sure as the anchor, unless its predictions have collapsed."""
        assert self.predictions is not None
        assert self.confidences is not None
        both = self.confidences.mean().double(), anchored.amax(1).mean().double()
        sure, source_sure = torch.stack(both).tolist()
        if source_sure >= sure / 2 or collapsed(self.predictions, anchored):
            return None
        return f"confidence is {sure:.0%} for the network and {source_sure:.0%} for the source"


def gain_over(source: Tensor, logits: Tensor, anchored: Tensor) -> float:
    """Return the anchor's mean probability of the predictions minus that of the source's predictions.

    Both are compared on the same batch, the last rows of `anchored`, so a hard batch counts against neither.

    >>> gain_over(torch.eye(2)[[0, 0]], torch.eye(2), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    0.3
    """
    probabilities = anchored[-len(logits) :].double()
    now, before = (probabilities.gather(1, given.argmax(1)[:, None]).mean() for given in (logits, source))
    return round(float(now - before), 6)


def suspicious(predictions: Tensor, opinion: Opinion, usual: float | None = None) -> bool:
    """Return whether the anchor believes predictions much less than its own, or is half as confident as is usual.

    >>> sure, unsure = (
    ...     Opinion(rows, torch.full((1, 3), 1 / 3), rows)
    ...     for rows in (torch.tensor([[0.9, 0.1, 0.0]]), torch.tensor([[0.3, 0.35, 0.35]]))
    ... )
    >>> suspicious(torch.tensor([0]), sure), suspicious(torch.tensor([1]), sure), suspicious(torch.tensor([2]), unsure)
    (False, True, True)
    """
    shortfall = (opinion.probabilities.amax(1) - opinion.belief(predictions)).mean()
    values = torch.stack([shortfall, opinion.plain.amax(1).mean()]).tolist()  # the host waits once
    return bool(values[0] > SUSPICIOUS or values[1] < (usual or USUAL_CONFIDENCE) / 2)


def collapsed(predictions: Tensor, anchored: Tensor) -> bool:
    """Return whether predictions hold less than half as many classes as the anchor finds in the same samples.

    >>> collapsed(torch.tensor([0, 0, 0]), torch.eye(3)), collapsed(torch.tensor([0, 0, 0]), torch.eye(3)[[0, 0, 0]])
    (True, False)
    """
    predicted = torch.bincount(predictions, minlength=anchored.shape[1]) / len(predictions)
    return variety(predicted) < variety(anchored.mean(0)) / 2
