"""The base of estimators that compare predictions under dropout."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import torch
from torch import Tensor

from holdfast.blocks.norm import paused
from holdfast.estimators._base import Estimator
from holdfast.estimators._dropout import (
    Points,
    from_features,
    known_outputs,
    named_points,
    predict_again,
    predicted,
    with_finished_parts,
)
from holdfast.estimators._held_out import source_error_of
from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, Momentum, Share
from holdfast.randomness import seed_for


class UnderDropout(Estimator):
    """Element-wise inverted dropout at chosen points, and the predictions of a network under many masks.

    `points` is "stages" (the ends of the main stages, at most four, and the input of the head after tokens), "features"
    (only the input of the head, which costs almost nothing) or a list of module names. The rate is a number, None for
    the published rate, which depends on the number of classes, or "fitted": the rate at which predictions on held-out
    source data differ as often as they are wrong. That error comes from labels, from `source_error` (a number, for
    unlabelled data) or, without both, from the confidence.
    """

    citation = "Lee et al., CVPR 2024"
    batches: int
    fitted_rate: float | None

    def __init__(
        self,
        *,
        points: Literal["stages", "features"] | Sequence[str] = "stages",
        rate: Momentum | Literal["fitted"] | None = None,
        masks: Count = 10,
        source_error: Share | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.points = points if isinstance(points, str) else tuple(points)
        self.rate, self.masks, self.source_error, self.seed = rate, masks, source_error, seed
        self.add_state("batches", 0)
        self.add_state("fitted_rate", None, kept=True)
        self._points_in_use: Points | None = None

    def points_in(self, model: Classifier) -> Points:
        """Return where dropout is applied in a network; found once, then kept."""
        if self._points_in_use is None:
            self._points_in_use = with_finished_parts(model, named_points(model, self.points))
        return self._points_in_use

    @property
    def needs(self) -> Literal["nothing", "inputs"]:
        """Source inputs if the rate is fitted."""
        return "inputs" if self.rate == "fitted" else "nothing"

    @property
    def shares(self) -> str:
        """The masks, which estimators with the same dropout draw once."""
        return f"dropout {self.points} {self.rate} {self.seed}"

    def passes(self, batch_size: int) -> float:
        """Return one pass for each mask; networks that are split at the first dropout need less."""
        return float(self.masks)

    def reuses(self, model: Classifier) -> Collection[str]:
        """Return the parts before the first dropout."""
        return self.points_in(model).finished

    def rate_for(self, classes: int) -> float:
        """Return the fitted or given rate, else the published one for the nearest number of classes."""
        if self.fitted_rate is not None:
            return self.fitted_rate
        if isinstance(self.rate, (int, float)):
            return self.rate
        if self.points == "features":
            return 0.5
        return 0.4 if classes < 10**1.5 else 0.3 if classes < 10**2.5 else 0.2  # CIFAR10, CIFAR100, ImageNet

    def dropped(self, seen: Observation) -> Tensor:
        """Return the logits under each mask, (masks, batch, classes), shared by estimators with the same masks."""
        rate, batch = self.rate_for(seen.model.num_classes), self.batches
        self.batches += 1
        key = ("dropout", self.points, rate, self.masks, self.seed, batch)
        return seen.once(key, lambda: self.masked(seen, rate, batch))

    def masked(self, seen: Observation, rate: float, batch: int) -> Tensor:
        """Predict again with the masks of one batch, from the first point on, or from the features on."""
        seeds = (seed_for(self.seed, "dropout", batch * self.masks + mask) for mask in range(self.masks))
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        points = self.points_in(seen.model)
        with paused(seen.model):
            if not points.names:
                return from_features(seen, rate, generators)
            outputs = known_outputs(seen, points)
            # On a CPU one pass for each mask is faster than one for all, because it fits into the caches.
            together = 1 if seen.inputs.device.type == "cpu" else self.masks
            groups = (generators[first : first + together] for first in range(0, self.masks, together))
            return torch.cat([predict_again(seen.model, seen.inputs, outputs, points, rate, group) for group in groups])

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Find by bisection the rate at which disagreement equals the error (after Lee et al., CVPR 2024)."""
        error = source_error_of(batches, model) if self.source_error is None else self.source_error
        observations = [predicted(inputs, model, self.points_in(model)) for inputs, _ in batches]
        lowest, highest = 0.0, 0.95
        for _ in range(8):
            self.fitted_rate = (lowest + highest) / 2
            if self._disagreement(observations, self.fitted_rate) > error:
                highest = self.fitted_rate
            else:
                lowest = self.fitted_rate

    def _disagreement(self, observations: Sequence[Observation], rate: float) -> float:
        agreeing = (
            len(seen.inputs) * seen.agreement(self.masked(seen, rate, number))
            for number, seen in enumerate(observations)
        )
        return 1 - sum(agreeing) / sum(len(seen.inputs) for seen in observations)
