"""T3A: the last layer becomes the mean of the features that it was sure of."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from holdfast.blocks.losses import entropy
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import patched

__all__ = ["T3a"]


@METHODS.register("t3a")
class T3a(Method):
    """Classifies by prototypes: of each class the mean direction of the features that the source was surest of.

    The rows of the source's last layer are the first supports. The features of a batch join them under their predicted
    labels before it is answered, and each class keeps the `supports_per_class` of lowest entropy (the paper's M). None
    keeps all of them, as a sum; the official code's −1 means to, but drops the least certain of each class every time.
    """

    citation = "Iwasawa & Matsuo, NeurIPS 2021"
    passes = "1 forward"
    keeps = "at most supports_per_class features of each class"
    predicts = "after"
    use_when = "nothing but the last layer may change, and no gradient is to be had"
    fails_when = "the features have lost the classes already, or predicted labels are mostly wrong"
    supports: Tensor  # (supports, width), of length 1
    labels: Tensor
    entropies: Tensor

    def __init__(self, model: Classifier, *, supports_per_class: int | None = 100, seed: int = 0) -> None:
        if supports_per_class is not None and supports_per_class < 1:
            raise ValueError(f"supports_per_class={supports_per_class} keeps nothing; pass at least 1, or None for all")
        self.supports_per_class = supports_per_class  # M
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Take the rows of the last layer for supports, under the labels that it gives them, and train nothing."""
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
        """Answer by the prototypes, once the batch is among their supports."""
        logits, features = self.model.forward_with_features(inputs)
        if not self.paused and torch.isfinite(logits).all():
            self._support(features, logits)
        head = _linear_head(self.model)
        features = features.reshape(-1, *head.weight.shape[1:])  # a convolution wants its axes back
        answers: Tensor = functional_call(head, self._prototypes(), features)
        return answers.flatten(1)

    def predictor_head(self) -> AbstractContextManager[None]:
        """Let the last layer use the prototypes."""
        head, weights = _linear_head(self.model), self._prototypes()
        own = copy.copy(head)  # with the forward that is about to be replaced
        return patched(head, lambda features: functional_call(own, weights, features))

    def export(self) -> nn.Module:
        """Return the network with the prototypes for its last layer."""
        exported = super().export()
        exported.get_submodule(self.model.head_name or "").load_state_dict(self._prototypes())
        return exported

    def _support(self, features: Tensor, logits: Tensor) -> None:
        """Add features under their predicted labels, and keep the surest of each class."""
        supports = torch.cat([self.supports, F.normalize(features, dim=1)])
        labels = torch.cat([self.labels, logits.argmax(1)])
        entropies = torch.cat([self.entropies, entropy(logits)])
        if self.supports_per_class is None:
            supports, classes = self._sums(supports, labels), self.model.num_classes
            labels, entropies = torch.arange(classes).to(labels), entropies[:classes]  # of a sum: never looked at
        else:
            kept = _lowest(entropies, labels, self.supports_per_class)
            supports, labels, entropies = supports[kept], labels[kept], entropies[kept]
        self.supports, self.labels, self.entropies = supports, labels, entropies

    def _sums(self, supports: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the supports of each class, (classes, width)."""
        return supports.new_zeros(self.model.num_classes, supports.shape[1]).index_add_(0, labels, supports)

    def _prototypes(self) -> dict[str, Tensor]:
        """Return weights for the last layer: the mean direction of the supports of each class, and no bias."""
        head = _linear_head(self.model)
        directions = F.normalize(self._sums(self.supports, self.labels), dim=1)
        weights = {name: torch.zeros_like(parameter) for name, parameter in head.named_parameters()}
        return {**weights, "weight": directions.view_as(head.weight)}


def _lowest(values: Tensor, labels: Tensor, per_class: int) -> Tensor:
    """Return the places of the so many lowest values of each class."""
    order = values.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]  # class by class, the lowest first
    counts = labels.bincount()
    rank = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[labels[order]]
    return order[rank < per_class]


def _fix_weight(head: nn.Module) -> None:
    """Make a weight that is computed, as under weight normalisation, one that prototypes can take the place of."""
    own = type(head)
    # torch takes the computation off the class, which all copies of the layer share: the caller's, too.
    head.__class__ = type(own.__name__, own.__bases__, dict(vars(own)))
    remove_parametrizations(head, "weight")


def _linear_head(model: Classifier) -> nn.Linear | nn.Conv1d | nn.Conv2d:
    if isinstance(model.head, (nn.Linear, nn.Conv1d, nn.Conv2d)):
        return model.head
    raise ValueError("there is no linear last layer to replace; pass its name, head='...', or choose 'tent'")
