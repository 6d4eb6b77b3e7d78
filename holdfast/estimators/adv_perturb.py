"""AdvPerturb: agreement with the source on inputs perturbed towards its decision boundary."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.records import Estimate


@ESTIMATORS.register("adv_perturb")
class AdvPerturb(Estimator):
    """Estimates accuracy as the agreement with the source on inputs perturbed towards its decision boundary.

    `norm="l2"` follows AETTA's code: the sign of a gradient, scaled to length 1/255 for a whole input, which changes
    very little; its loss is a divergence of raw logits, whose gradient is that of −½|z|². `norm="linf"` is ours: 1/255
    for each value, along the gradient of the cross-entropy to the source's own label. Inputs must lie in [0, 1].
    """

    citation = "Lee et al., ICML 2023; as in Lee et al., CVPR 2024"

    def __init__(self, *, norm: Literal["l2", "linf"] = "l2", size: float = 1 / 255) -> None:
        super().__init__()
        self.norm, self.size = norm, size
        self.source: Classifier | None = None

    def passes(self, batch_size: int) -> float:
        """Return two passes of the source and one backward pass."""
        return 4.0

    def prepare(self, source: Classifier) -> None:
        """Copy the source, with its own statistics."""
        if not source.input_dtype.is_floating_point:
            raise ValueError(
                f"adv_perturb moves inputs along a gradient, and the network takes {source.input_dtype}; choose "
                "another estimator, such as 'aetta'"
            )
        self.source = copy.deepcopy(source).eval().requires_grad_(False)

    def estimate(self, seen: Observation) -> Estimate:
        """Return the share of predictions that equal those of the source on the perturbed inputs."""
        if self.source is None:
            raise ValueError("adv_perturb has no source network; pass it as estimator= to holdfast.adapt")
        return Estimate(seen.agreement(self.source(self.perturb(seen.inputs))))

    def perturb(self, inputs: Tensor) -> Tensor:
        """Return inputs moved one step towards the decision boundary of the source."""
        assert self.source is not None
        with torch.enable_grad():
            given = inputs.detach().requires_grad_()
            logits = self.source(given)
            if self.norm == "l2":
                loss = -logits.square().sum() / 2
            else:
                loss = F.cross_entropy(logits, logits.detach().argmax(1), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, given)
        step = gradient.sign()
        if self.norm == "l2":
            step = F.normalize(step.flatten(1), dim=1).view_as(step)
        return (inputs + self.size * step).clamp(0, 1)
