"""DELTA: renormalised statistics and class-balanced weights for TENT and its relatives."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.losses import entropy
from holdfast.blocks.renorm import RenormalisedStatistics
from holdfast.blocks.wrapping import Restated, replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Share

Base = Literal["tent", "entropy_weights", "pseudo_labels"]

_CIFAR = {"optimizer": "adam", "lr": 1e-3}  # TENT's; the authors release ImageNet only
_IMAGENET = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9}


@METHODS.register("delta")
class Delta(Method):
    """Normalise with moving averages of the test statistics, and weigh samples against the classes predicted so far.

    `base` is what is minimised: the entropy of all samples ("tent"), the weighted entropy of certain ones
    ("entropy_weights"), or the cross-entropy to confident predictions ("pseudo_labels"). As in the official code the
    averages start with the first batch; `start="source"` starts them with the source statistics.
    """

    citation = "Zhao et al., ICLR 2023"
    needs_batch_norm = True
    keeps = "source values of the trained parameters; mean and deviation of every BatchNorm layer"
    use_when = "one long domain with correlated or imbalanced classes, at the cost of TENT"
    fails_when = "domains change every few batches: its statistics lag behind (54 % error, TENT 34 %, on such a stream)"
    meanings: ClassVar = {
        "base": "the loss: tent, entropy_weights or pseudo_labels",
        "statistics_momentum": "share of itself that a moving average of statistics keeps at each batch",
        "class_momentum": "the same for the class proportions",
        "start": "statistics of the first batch, or of the source",
        "entropy_margin": "largest entropy of a certain sample, as a share of log(classes); for entropy_weights",
        "min_confidence": "smallest confidence of a pseudo-label",
    }
    presets: ClassVar = {"cifar10-c": _CIFAR, "cifar100-c": _CIFAR, "imagenet-c": _IMAGENET}
    class_shares: Tensor

    def __init__(
        self,
        model: Classifier,
        *,
        base: Base = "tent",
        statistics_momentum: Share = 0.95,
        class_momentum: Share = 0.95,
        start: Literal["batch", "source"] = "batch",
        entropy_margin: NotNegative = 0.5,
        min_confidence: Share = 0.4,
        **learning: Any,
    ) -> None:
        self.statistics_momentum, self.start = statistics_momentum, start
        super().__init__(model, **learning)
        self.base, self.class_momentum = base, class_momentum
        self.entropy_margin, self.min_confidence = entropy_margin, min_confidence
        self.max_entropy = entropy_margin * math.log(model.num_classes)
        uniform = torch.full((model.num_classes,), 1 / model.num_classes, device=model.device, dtype=model.dtype)
        self.add_state("class_shares", uniform)  # q̂: moving average of the predictions

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Renormalise every BatchNorm layer and train its affine parameters, and no others."""
        stand_in = partial(RenormalisedStatistics, momentum=self.statistics_momentum, start=self.start)
        replace_batch_norm(model, stand_in)
        layers = [
            part.layer if isinstance(part, Restated) else part
            for part in model.modules()
            if isinstance(part, (RenormalisedStatistics, Restated))
        ]
        own = {id(weight): weight for layer in layers for weight in layer.parameters(recurse=False)}
        if not own:
            raise ValueError("no BatchNorm layer of the model has affine parameters to adapt; choose 'robust_bn'")
        return list(own.values())

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return the mean of balanced losses over the samples that the base keeps; None if there are none."""
        probs = logits.detach().softmax(1)
        confidence, labels = probs.max(1)
        balance = 1 / self.class_shares[labels]
        balance = balance * (len(balance) / balance.sum())  # ω: 1 on average over the whole batch
        self.class_shares = probs.mean(0).lerp(self.class_shares, self.class_momentum)
        if self.base == "pseudo_labels":
            losses, kept = F.cross_entropy(logits, labels, reduction="none"), confidence > self.min_confidence
        else:
            losses = entropy(logits)
            if self.base == "tent":
                return (balance * losses).mean()
            balance = balance * (self.max_entropy - losses.detach()).exp()
            kept = losses.detach() < self.max_entropy
        return (balance * losses)[kept].mean() if kept.any() else None
