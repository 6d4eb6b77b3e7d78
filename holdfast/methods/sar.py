"""SAR: sharpness-aware entropy minimisation on reliable samples."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from torch import Tensor, nn

from holdfast.blocks.frozen_layers import TOP_LAYERS, affine_parameters_except
from holdfast.blocks.objectives import Objective, objective_named
from holdfast.blocks.sharpness import climb
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative

_SGD = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9}


@METHODS.register("sar")
class Sar(Method):
    """Minimise the entropy of reliable samples at the worst nearby weights, which favours flat minima.

    The recipe `sar` adds the published recovery, `loss_collapse`. If no sample is reliable there is no update; the
    official code still moves by momentum. `frozen_layers` is a regular expression: layers whose names match are not
    trained; the official pattern fits ResNets and transformers with twelve blocks. `keep_momentum` keeps the
    optimiser's momentum through a reset, as the official code does unintentionally. `objective="come"` replaces the
    entropy in filters and loss by that of predictions with an explicit "unknown" (recipe `come_sar`).
    """

    citation = "Niu et al., ICLR 2023"
    passes = "2 forward, 2 backward; 1 forward if no sample is reliable"
    use_when = "batches are small, mixed or of few classes, and the network uses GroupNorm or LayerNorm"
    fails_when = "few samples are reliable, so it hardly adapts; or classes are few, so a healthy loss looks collapsed"
    meanings: ClassVar = {
        "entropy_margin": "largest entropy of a reliable sample, as a share of log(classes)",
        "radius": "distance to the worst nearby weights (ρ)",
        "frozen_layers": "regular expression of layers that are not trained",
        "keep_momentum": "whether a reset keeps the optimiser's momentum, as in the official code",
        "objective": "entropy, or come: that of predictions with an explicit unknown",
    }
    presets: ClassVar = {
        "cifar10-c": _SGD,
        "cifar100-c": _SGD,
        "imagenet-c": _SGD,
        "imagenet-c-layer": {**_SGD, "lr": 1e-3},
        "imagenet-c-batch-of-one": {**_SGD, "lr": 4 * 2.5e-4 / 64},
        "imagenet-c-layer-batch-of-one": {**_SGD, "lr": 2 * 1e-3 / 64},
        "ccc": _SGD,
        "aetta": {**_SGD, "keep_momentum": True, "keep_average": True, "scope": "aetta"},  # as in the official code
    }

    def __init__(
        self,
        model: Classifier,
        *,
        entropy_margin: NotNegative = 0.4,
        radius: float = 0.05,
        frozen_layers: str | None = TOP_LAYERS,
        keep_momentum: bool = False,
        objective: Objective = "entropy",
        **learning: Any,
    ) -> None:
        self.frozen_layers = frozen_layers
        self.objective, self.uncertainty = objective, objective_named(objective)
        super().__init__(model, **learning)
        self.entropy_margin, self.radius, self.keep_momentum = entropy_margin, radius, keep_momentum
        self.max_entropy = entropy_margin * math.log(model.num_classes)  # E_0

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics in all layers and train the affine parameters of those that are not frozen."""
        super().prepare(model)
        return affine_parameters_except(model.module, self.frozen_layers)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return the mean entropy at the worst nearby weights, over the samples that are reliable before and after."""
        uncertainty = self.uncertainty(logits)
        reliable = self._reliable(uncertainty)
        if not len(reliable):
            return None
        nearby = climb(self.model, self.trained, uncertainty[reliable].mean(), self.radius)
        self.samples_backwarded += len(inputs)
        uncertainty = self.uncertainty(nearby(inputs))[reliable]
        still_reliable = self._reliable(uncertainty)
        return uncertainty[still_reliable].mean() if len(still_reliable) else None

    def _reliable(self, uncertainty: Tensor) -> Tensor:
        """Return the indices of the certain samples; unlike a mask, they let the host wait once only."""
        return (uncertainty.detach() < self.max_entropy).nonzero()[:, 0]
