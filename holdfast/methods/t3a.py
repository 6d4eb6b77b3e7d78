"""T3A: replace the last layer by class prototypes, the means of confident features."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from holdfast.blocks.losses import entropy
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import patched
from holdfast.options.ranges import Count


@METHODS.register("t3a")
class T3a(Method):
    """Classify with prototypes: for each class the mean direction of the features that the source is most certain of.

    The rows of the source's last layer are the initial supports. The features of a batch are added under their
    predicted labels before the batch is predicted, and each class keeps the `supports_per_class` with the lowest
    entropy (M in the paper). None keeps all of them, as a sum; −1 in the official code is meant to, but drops the least
    certain support of each class at every batch.
    """

    citation = "Iwasawa & Matsuo, NeurIPS 2021"
    needs_head = True
    needs_norm = False
    passes = "1 forward"
    keeps = "at most supports_per_class features of each class"
    predicts = "after"
    use_when = "only the last layer may change, and gradients are not available"
    fails_when = "the features no longer separate the classes, or most predicted labels are wrong"
    meanings: ClassVar = {
        "supports_per_class": "number of features kept for each class (M); None: all",
    }
    supports: Tensor  # (supports, width), of unit length
    labels: Tensor
    entropies: Tensor

    def __init__(self, model: Classifier, *, supports_per_class: Count | None = 100, seed: int = 0) -> None:
        self.supports_per_class = supports_per_class  # M
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Initialise the supports with the rows of the last layer and their predicted labels; train nothing."""
        head = _linear_head(model)
        if is_parametrized(head, "weight"):
            _fix_weight(head)
        rows = head.weight.detach().flatten(1)
        logits = model.classify(rows)
        self.add_state("supports", F.normalize(rows, dim=1))
        self.add_state("labels", logits.argmax(1))
        self.add_state("entropies", entropy(logits))
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Add the batch to the supports, then predict with the prototypes."""
        logits, features = self.model.forward_with_features(inputs)
        if not self.paused and torch.isfinite(logits).all():
            self._support(features, logits)
        head = _linear_head(self.model)
        features = features.reshape(-1, *head.weight.shape[1:])  # a convolution needs its spatial axes
        scores: Tensor = functional_call(head, self._head_weights(), features)
        return scores.flatten(1)

    def predictor_head(self) -> AbstractContextManager[None]:
        """Use the prototypes as the last layer while the context is open."""
        head, weights = _linear_head(self.model), self._head_weights()
        own = copy.copy(head)  # keeps the forward that is about to be replaced
        return patched(head, lambda features: functional_call(own, weights, features))

    def export(self) -> nn.Module:
        """Return the network with the prototypes as its last layer."""
        exported = super().export()
        exported.get_submodule(self.model.head_name or "").load_state_dict(self._head_weights())
        return exported

    def prototypes(self) -> Tensor:
        """Return the mean direction of each class's supports, (classes, width)."""
        return F.normalize(self._sums(self.supports, self.labels), dim=1)

    def _support(self, features: Tensor, logits: Tensor) -> None:
        """Add features under their predicted labels, and keep the most certain of each class."""
        supports = torch.cat([self.supports, F.normalize(features, dim=1)])
        labels = torch.cat([self.labels, logits.argmax(1)])
        entropies = torch.cat([self.entropies, entropy(logits)])
        if self.supports_per_class is None:
            supports, classes = self._sums(supports, labels), self.model.num_classes
            labels, entropies = (
                torch.arange(classes).to(labels),
                entropies[:classes],
            )  # of a sum: never read
        else:
            kept = _lowest(entropies, labels, self.supports_per_class)
            supports, labels, entropies = supports[kept], labels[kept], entropies[kept]
        self.supports, self.labels, self.entropies = supports, labels, entropies

    def _sums(self, supports: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the supports of each class, (classes, width)."""
        return supports.new_zeros(self.model.num_classes, supports.shape[1]).index_add_(0, labels, supports)

    def _head_weights(self) -> dict[str, Tensor]:
        """Return weights for the last layer: the prototypes, and a zero bias."""
        head = _linear_head(self.model)
        weights = {name: torch.zeros_like(parameter) for name, parameter in head.named_parameters()}
        return {**weights, "weight": self.prototypes().view_as(head.weight)}


def _lowest(values: Tensor, labels: Tensor, per_class: int) -> Tensor:
    """Return the indices of the `per_class` lowest values of each class."""
    order = values.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]  # by class, the lowest first
    counts = labels.bincount()
    rank = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[labels[order]]
    return order[rank < per_class]


def _fix_weight(head: nn.Module) -> None:
    """Turn a parametrised weight, as under weight normalisation, into a plain one that prototypes can replace."""
    own = type(head)
    # torch removes the parametrisation from the class, which the caller's layer shares: give this copy its own class.
    head.__class__ = type(own.__name__, own.__bases__, dict(vars(own)))
    remove_parametrizations(head, "weight")


def _linear_head(model: Classifier) -> nn.Linear | nn.Conv1d | nn.Conv2d:
    if isinstance(model.head, (nn.Linear, nn.Conv1d, nn.Conv2d)):
        return model.head
    raise ValueError("no last linear layer was found; pass its name as head='...', or choose 'blend'")
