"""ETA and EATA: learn only from reliable and new samples, and do not forget."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.blocks.losses import entropy
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier

__all__ = ["Eata", "Eta"]

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
    """Minimises the entropy of samples that are reliable (low entropy) and not redundant, the surest weighing most."""

    citation = "Niu et al., ICML 2022"
    passes = "1 forward, at most 1 backward"
    use_when = "streams are of medium length and there is no source data"
    fails_when = "streams never end: without a reset it collapses later than TENT, but it does (CCC)"
    presets = _PRESETS
    mean_probs: Tensor | None
    reliable_samples: int
    learnt_samples: int

    def __init__(
        self,
        model: Classifier,
        *,
        entropy_margin: float = 0.4,
        redundancy_margin: float = 0.05,
        probs_momentum: float = 0.9,
        **learning: Any,
    ) -> None:
        super().__init__(model, **learning)
        self.entropy_margin, self.redundancy_margin = entropy_margin, redundancy_margin
        self.probs_momentum = probs_momentum
        self._max_entropy = entropy_margin * math.log(model.num_classes)  # E_0
        self.add_state("mean_probs", None)  # m: what the network has learnt from lately
        self.add_state("reliable_samples", 0)
        self.add_state("learnt_samples", 0)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return Σ w H over the selected samples divided by their number; None when there are none."""
        uncertainty = entropy(logits)
        reliable = uncertainty.detach() < self._max_entropy
        selected = reliable & self._new(logits.detach().softmax(1), reliable)
        self.reliable_samples += int(reliable.sum())
        self.learnt_samples += (count := int(selected.sum()))
        if count == 0:
            return None
        weights = (self._max_entropy - uncertainty.detach()).exp()
        return (weights * uncertainty)[selected].mean()

    def _new(self, probs: Tensor, reliable: Tensor) -> Tensor:
        """Mark the samples unlike what was learnt lately, then count the selected ones as learnt."""
        new = torch.ones_like(reliable)
        if self.mean_probs is not None:
            similarity = F.cosine_similarity(self.mean_probs[None], probs, dim=1)
            new = similarity.abs() < self.redundancy_margin
        if (reliable & new).any():
            mean = probs[reliable & new].mean(0)
            self.mean_probs = mean if self.mean_probs is None else mean.lerp(self.mean_probs, self.probs_momentum)
        return new


@METHODS.register("eata")
class Eata(Eta):
    """ETA with a penalty on leaving the source weights, each weighed by its Fisher information."""

    needs_source = True
    keeps = "source values and Fisher information of the trained parameters"
    use_when = "a few hundred unlabelled source inputs are at hand and what was known must not be forgotten"
    fails_when = "the shift is far: the penalty that saves it from collapse also holds it back"
    presets: ClassVar = {
        name: {**options, "fisher_weight": 1.0 if name.startswith("cifar") else 2000.0}
        for name, options in _PRESETS.items()
    }
    fisher: Tensor | None
    _source: Tensor

    def __init__(self, model: Classifier, *, fisher_weight: float = 2000.0, **selection: Any) -> None:
        super().__init__(model, **selection)
        self.fisher_weight = fisher_weight  # β
        self.add_state("fisher", None, kept=True)
        source = torch.cat([weight.flatten() for weight in self.source_weights()])  # θ₀
        self.register_buffer("_source", source, persistent=False)

    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Measure the diagonal Fisher information: squared gradients of the batch-mean loss on the own labels."""
        squares = []
        for inputs in batches:
            with torch.enable_grad():
                logits = self.predict(inputs)
                loss = F.cross_entropy(logits, logits.detach().argmax(1))
            gradients = torch.autograd.grad(loss, self.trained, materialize_grads=True)  # 0 where a layer goes unused
            squares.append(torch.cat([gradient.flatten() for gradient in gradients]) ** 2)
        if not squares:
            raise ValueError(
                "there was no source batch to fit on; pass source=[inputs, …] with unlabelled source inputs"
            )
        self.fisher = torch.stack(squares).mean(0)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return ETA's loss plus β Σ F (θ − θ₀)²."""
        loss = super().loss(inputs, logits)
        if loss is None or self.fisher is None:
            return loss
        weights = torch.cat([parameter.flatten() for parameter in self.trained])
        return loss + self.fisher_weight * (self.fisher * (weights - self._source) ** 2).sum()
