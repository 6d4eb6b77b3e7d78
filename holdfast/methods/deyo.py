"""DeYO: train on samples whose confidence depends on the shape of the object."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.blocks.destruction import DESTRUCTIONS
from holdfast.blocks.frozen_layers import TOP_LAYERS, affine_parameters_except
from holdfast.blocks.losses import entropy
from holdfast.blocks.views import View
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative
from holdfast.randomness import seed_for

_SGD = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9}
_CIFAR = {"optimizer": "adam", "lr": 1e-3}  # of the TTA collection; the authors publish none


@METHODS.register("deyo")
class Deyo(Method):
    """Minimise the entropy of samples that the network is certain of because of the shape of the object.

    A sample counts if its entropy is low and its confidence drops by more than `min_drop` when patches of the input are
    shuffled (the pseudo-label probability difference, PLPD). `destruction` is "patch", "occlusion" or "pixel" (the
    middle half is covered), or a function (inputs, generator) -> inputs; of audio, 16 segments are shuffled (ours).
    `frozen_layers` is a regular expression: layers whose names match are not trained.
    """

    citation = "Lee et al., ICLR 2024"
    passes = "at most 2 forward, 1 backward; 1 forward if no sample is certain"
    use_when = "batches are small, mixed or of few classes, and confident errors come from background or texture"
    fails_when = "shape does not tell the classes apart, as in texture or audio, so that few samples are trained on"
    meanings: ClassVar = {
        "entropy_margin": "largest entropy of a certain sample, as a share of log(classes)",
        "weight_margin": "entropy at which the first part of a sample's weight is 1, as a share of log(classes)",
        "min_drop": "smallest drop of confidence when shape is destroyed",
        "destruction": "patch, occlusion or pixel, or a function (inputs, generator) -> inputs",
        "frozen_layers": "regular expression of layers that are not trained",
    }
    presets: ClassVar = {
        "cifar10-c": _CIFAR,
        "cifar100-c": _CIFAR,
        "imagenet-c": {**_SGD, "min_drop": 0.3},
        "imagenet-c-group": _SGD,
        "imagenet-c-layer": {**_SGD, "lr": 1e-3},
        "imagenet-c-batch-of-one": {**_SGD, "lr": 4 * 2.5e-4 / 64},
        "imagenet-c-layer-batch-of-one": {**_SGD, "lr": 2 * 1e-3 / 64},
        "ccc": {**_SGD, "nesterov": True},
        "waterbirds": {**_SGD, "lr": 5 * 2.5e-4, "min_drop": 0.5},
        "coloured-mnist": {**_SGD, "lr": 5 * 2.5e-4, "min_drop": 0.5, "entropy_margin": 1.0, "weight_margin": 1.0},
    }
    certain_samples: int
    learnt_samples: int

    def __init__(
        self,
        model: Classifier,
        *,
        entropy_margin: NotNegative = 0.5,
        weight_margin: NotNegative = 0.4,
        min_drop: float = 0.2,
        destruction: str | View = "patch",
        frozen_layers: str | None = TOP_LAYERS,
        **learning: Any,
    ) -> None:
        self.frozen_layers = frozen_layers
        if isinstance(destruction, str) and destruction not in DESTRUCTIONS:
            raise ValueError(f"destruction must be one of {', '.join(map(repr, DESTRUCTIONS))}, got {destruction!r}")
        self.destruction, self.destroy = (
            (destruction, DESTRUCTIONS[destruction]) if isinstance(destruction, str) else ("custom", destruction)
        )
        super().__init__(model, **learning)
        self.entropy_margin, self.weight_margin, self.min_drop = (
            entropy_margin,
            weight_margin,
            min_drop,
        )  # τ_E, E_0, τ_P
        self.max_entropy, self.weight_entropy = (
            margin * math.log(model.num_classes) for margin in (entropy_margin, weight_margin)
        )
        self.add_state("certain_samples", 0)
        self.add_state("learnt_samples", 0)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics in all layers and train the affine parameters of those that are not frozen."""
        super().prepare(model)
        return affine_parameters_except(model.module, self.frozen_layers)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return the weighted mean entropy of the certain samples whose confidence depends on shape."""
        uncertainty = entropy(logits)
        certain = (uncertainty.detach() < self.max_entropy).nonzero().squeeze(1)
        self.certain_samples += len(certain)
        if not len(certain):
            return None
        drop = self.confidence_drop(inputs[certain], logits.detach()[certain])
        kept = (drop > self.min_drop).nonzero()[:, 0]
        self.learnt_samples += len(kept)
        if not len(kept):
            return None
        uncertainty = uncertainty[certain[kept]]
        weights = (self.weight_entropy - uncertainty.detach()).exp() + drop[kept].exp()
        return (weights * uncertainty).mean()

    @torch.no_grad()
    def confidence_drop(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return by how much the probability of the predicted class falls when shape is destroyed, (batch,)."""
        generator = torch.Generator().manual_seed(seed_for(self.seed, "destruction", self.batches))
        destroyed: Tensor = self.model(self.destroy(inputs, generator))
        confidence, labels = logits.softmax(1).max(1)
        return confidence - destroyed.softmax(1).gather(1, labels[:, None]).squeeze(1)
