"""ZeroSiam: entropy minimisation through a learnable map in front of the head, aligned with the plain prediction."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.losses import entropy
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative


def _rates(base: float, backbone: float, predictor: float) -> dict[str, Any]:
    """Return the published rates of one network: a base rate for batches of 64, times a factor for each part."""
    return {"optimizer": "sgd", "momentum": 0.9, "lr": base * backbone, "predictor_lr": base * predictor}


@METHODS.register("zerosiam")
class ZeroSiam(Method):
    """Minimise the entropy of a branch with its own linear map, and keep it close to the plain branch, which predicts.

    The map starts as the identity and absorbs what would collapse the network: the gradient of the entropy reaches the
    network only through it. As in the official code, the distance is the sum of both Kullback-Leibler divergences. The
    rates are for batches of 64; the authors scale them with the batch size. They publish no setting for CIFAR and no
    result for BatchNorm.
    """

    citation = "Chen, Niu et al., ICLR 2026"
    needs_head = True
    keeps = "source values of the trained parameters; a square matrix of the features"
    use_when = "batches are of few classes or streams are long, and TENT would collapse, at the cost of TENT"
    fails_when = (
        "the learning rate is too high: at ten times its rate it collapses too, later than TENT; or features are wide "
        "and memory is scarce: the map has width² weights, and as many for their momentum"
    )
    meanings: ClassVar = {
        "predictor_lr": "learning rate of the linear map",
        "alignment_weight": "of the distance between both branches (α)",
    }
    presets: ClassVar = {
        "imagenet-c": _rates(2.5e-4, 10, 100),  # ResNet-50 with GroupNorm
        "imagenet-c-layer": _rates(1e-3, 5, 5),  # ViT-B/16
        "vit-s": _rates(1e-4, 10, 100),
        "convnext-t": _rates(2.5e-5, 10, 100),
        "swin-t": _rates(5e-5, 10, 50),
    }

    def __init__(
        self,
        model: Classifier,
        *,
        lr: NotNegative = 2.5e-3,
        predictor_lr: NotNegative = 2.5e-2,
        alignment_weight: NotNegative = 1.0,
        **learning: Any,
    ) -> None:
        self.predictor_lr, self.alignment_weight = predictor_lr, alignment_weight  # α
        super().__init__(model, lr=lr, **learning)
        self._features: Tensor | None = None  # of the newest prediction, with their graph

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics, and train the affine parameters and the map."""
        trained = super().prepare(model)
        width = model.feature_width
        self.map = nn.Linear(width, width, bias=False, device=model.device, dtype=model.dtype)
        nn.init.eye_(self.map.weight)
        return [*trained, *self.map.parameters()]

    def learning_rates(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return the affine parameters and the map, each with its learning rate."""
        return [(self.trained[:-1], self.lr), (self.trained[-1:], self.predictor_lr)]

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logits of the branch without the map."""
        logits, features = self.model.forward_with_features(inputs)
        self._features = features if torch.is_grad_enabled() and not self.paused else None
        return logits

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return H(p_o) + α (KL(p_t ‖ p_o) + KL(p_o ‖ p_t)), the mean over samples."""
        assert self._features is not None, "the batch has not been predicted"
        online = self.model.classify(self.map(self._features))
        self._features = None
        log_online, log_target = (F.log_softmax(part, dim=1) for part in (online, logits.detach()))
        divergences = (log_online.exp() - log_target.exp()) * (log_online - log_target)
        return (entropy(online) + self.alignment_weight * divergences.sum(1)).mean()
