"""Anchored: what the frozen source makes of the answers to the very same inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.estimators.anchor import Anchor
from holdfast.estimators.base import ESTIMATORS, Estimator
from holdfast.estimators.observation import Observation
from holdfast.estimators.proportions import reweigh
from holdfast.models.classifier import Classifier
from holdfast.records import Estimate

__all__ = ["Anchored"]


@ESTIMATORS.register("anchored")
class Anchored(Estimator):
    """Takes the probability that an anchor gives to the answers for the accuracy, and says how sure that is. Ours.

    The anchor is a frozen copy of the source that follows the statistics of the inputs and nothing else: it costs one
    pass, and does not collapse with the network it watches. Its probabilities are reweighed by the classes that the
    last `window` samples seem to have, so that classes in bursts are not taken for collapse. Labels that come with
    held-out source data set its temperature.
    """

    probabilities: Tensor | None
    answers: Tensor | None

    def __init__(
        self,
        *,
        temperature: float = 1.75,
        source_share: float = 0.5,
        memory_samples: int = 640,
        window: int = 64,
    ) -> None:
        super().__init__()
        self.temperature, self.source_share = temperature, source_share
        self.memory_samples, self.window = memory_samples, window
        self.anchor = Anchor(source_share=source_share, memory_samples=memory_samples, temperature=temperature)
        self.add_state("probabilities", None)  # the anchor's, of the last samples, (samples, classes)
        self.add_state("answers", None)  # to them, (samples,)

    @property
    def needs(self) -> Literal["anything"]:
        """Held-out labels, where there are some, set the temperature."""
        return "anything"

    def prepare(self, source: Classifier) -> None:
        """Copy the source."""
        self.anchor.prepare(source)

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Fit the anchor's temperature."""
        self.anchor.fit(batches)

    def estimate(self, seen: Observation) -> Estimate:
        """Return the anchor's mean probability of the answers over the window, with its interval."""
        logits = self.anchor.logits(seen.inputs)
        if not torch.isfinite(logits).all():
            return Estimate(math.nan, unknown="the source itself answers with non-finite numbers")
        self.probabilities = self._recent(self.probabilities, logits.softmax(1))
        self.answers = self._recent(self.answers, seen.logits.argmax(1))
        beliefs = reweigh(self.probabilities).gather(1, self.answers[:, None])[:, 0]
        value = float(beliefs.mean())
        reach = 1.645 * float((beliefs * (1 - beliefs)).sum().sqrt()) / len(beliefs)  # nine times out of ten
        return Estimate(value, max(0.0, value - reach), min(1.0, value + reach))

    def _recent(self, before: Tensor | None, now: Tensor) -> Tensor:
        """Return a batch and what came before it: the window, or the whole batch where that is larger."""
        return now if before is None else torch.cat([before, now])[-max(self.window, len(now)) :]
