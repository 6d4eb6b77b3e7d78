"""ETA and EATA: train on reliable, non-redundant samples only; EATA adds a penalty against forgetting."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.blocks.objectives import Objective, objective_named
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Share

_CIFAR = {"optimizer": "sgd", "lr": 5e-3, "momentum": 0.9, "redundancy_margin": 0.4}
_IMAGENET = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9, "redundancy_margin": 0.05}
_PRESETS = {
    "cifar10-c": _CIFAR,
    "cifar100-c": _CIFAR,
    "imagenet-c": _IMAGENET,
    "imagenet-c-layer": {**_IMAGENET, "lr": 1e-3},
    "ccc": _IMAGENET,
}


@METHODS.register("eta")
class Eta(Method):
    """Minimise the entropy of reliable (low-entropy), non-redundant samples, weighted by their certainty.

    `objective="come"` measures uncertainty by the entropy of predictions with an explicit "unknown"; redundancy is
    still measured without it (recipe `come_eata`).
    """

    citation = "Niu et al., ICML 2022"
    passes = "1 forward, at most 1 backward"
    use_when = "streams are of medium length and no source data is available"
    fails_when = "streams are very long: without resets it collapses, if later than TENT (CCC)"
    meanings: ClassVar = {
        "entropy_margin": "largest entropy of a reliable sample, as a share of log(classes)",
        "redundancy_margin": "largest similarity to earlier predictions of a sample that is trained on",
        "probs_momentum": "share of itself that the average of earlier predictions keeps at each batch",
        "objective": "entropy, or come: that of predictions with an explicit unknown",
    }
    presets = _PRESETS
    mean_probs: Tensor | None
    reliable_samples: int
    learnt_samples: int

    def __init__(
        self,
        model: Classifier,
        *,
        entropy_margin: NotNegative = 0.4,
        redundancy_margin: NotNegative = 0.05,
        probs_momentum: Share = 0.9,
        objective: Objective = "entropy",
        **learning: Any,
    ) -> None:
        self.objective, self.uncertainty = objective, objective_named(objective)
        super().__init__(model, **learning)
        self.entropy_margin, self.redundancy_margin = entropy_margin, redundancy_margin
        self.probs_momentum = probs_momentum
        self.max_entropy = entropy_margin * math.log(model.num_classes)  # E_0
        self.add_state("mean_probs", None)  # m: moving average of the predictions that were trained on
        self.add_state("reliable_samples", 0)
        self.add_state("learnt_samples", 0)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return the weighted mean entropy of the selected samples; None if there are none."""
        uncertainty = self.uncertainty(logits)
        probs = logits.detach().softmax(1)
        # The host waits once, for the choice.
        reliable, new = torch.stack([uncertainty.detach() < self.max_entropy, self._new(probs)]).cpu()
        selected = (reliable & new).nonzero()[:, 0].to(logits.device)
        self.reliable_samples += int(reliable.sum())
        self.learnt_samples += len(selected)
        if not len(selected):
            return None
        mean = probs[selected].mean(0)
        self.mean_probs = mean if self.mean_probs is None else mean.lerp(self.mean_probs, self.probs_momentum)
        weights = (self.max_entropy - uncertainty.detach()).exp()
        return (weights * uncertainty)[selected].mean()

    def _new(self, probs: Tensor) -> Tensor:
        """Return the mask of samples that do not resemble the average of those trained on."""
        if self.mean_probs is None:
            return torch.ones(len(probs), dtype=torch.bool, device=probs.device)
        return F.cosine_similarity(self.mean_probs[None], probs, dim=1).abs() < self.redundancy_margin


@METHODS.register("eata")
class Eata(Eta):
    """Run ETA with a penalty on the distance to the source weights, weighted by their Fisher information."""

    needs_source = True
    keeps = "source values and Fisher information of the trained parameters"
    use_when = "a few hundred unlabelled source inputs are available and source accuracy must be preserved"
    fails_when = "the shift is large: the penalty that prevents a collapse also limits the adaptation"
    meanings: ClassVar = {
        "fisher_weight": "of the penalty on the distance to the source weights (β)",
    }
    presets: ClassVar = {
        name: {**options, "fisher_weight": 1.0 if name.startswith("cifar") else 2000.0}
        for name, options in _PRESETS.items()
    } | {"aetta": {**_CIFAR, "fisher_weight": 1.0, "weight_decay": 5e-4}}  # on CIFAR, as in AETTA's code
    fisher: Tensor | None
    _source: Tensor

    def __init__(self, model: Classifier, *, fisher_weight: NotNegative = 2000.0, **selection: Any) -> None:
        super().__init__(model, **selection)
        self.fisher_weight = fisher_weight  # β
        self.add_state("fisher", None, kept=True)
        source = torch.cat([weight.flatten() for weight in self.source_weights()])  # θ₀
        self.register_buffer("_source", source, persistent=False)

    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Estimate the diagonal Fisher information: squared gradients of the batch-mean loss on predicted labels."""
        squares = []
        for inputs in batches:
            with torch.enable_grad():
                logits = self.predict(inputs)
                loss = F.cross_entropy(logits, logits.detach().argmax(1))
            gradients = torch.autograd.grad(loss, self.trained, materialize_grads=True)  # 0 for unused layers
            squares.append(torch.cat([gradient.flatten() for gradient in gradients]) ** 2)
        if not squares:
            raise ValueError("source holds no batch; pass source=[inputs, …] with unlabelled source inputs")
        self.fisher = torch.stack(squares).mean(0)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return ETA's loss plus β Σ F (θ − θ₀)²."""
        loss = super().loss(inputs, logits)
        if loss is None or self.fisher is None:
            return loss
        weights = torch.cat([parameter.flatten() for parameter in self.trained])
        return loss + self.fisher_weight * (self.fisher * (weights - self._source) ** 2).sum()
