"""A network for some of its classes: the other logits are masked."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from holdfast.models.base import MODELS, load
from holdfast.models.classifier import Classifier
from holdfast.models.normalised import unwrapped
from holdfast.models.outputs import logits_of


class MaskedClasses(nn.Module):
    """A network of which only some outputs are returned, in a given order."""

    indices: Tensor

    def __init__(self, module: nn.Module, indices: Sequence[int]) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("indices", torch.tensor(list(indices)), persistent=False)
        self.training = module.training

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of the chosen classes, (batch, chosen)."""
        return logits_of(self.module(inputs), len(inputs))[:, self.indices]


def with_classes(network: nn.Module, indices: Sequence[int], *, example: Tensor | None = None) -> nn.Module:
    """Return a network whose classes are these outputs of another, in this order; the other is not changed.

    The last linear layer keeps the rows of these classes, so that every method finds it; networks without one get
    their logits masked. Nothing is done to a network that has no more outputs than that.

    Args:
        network: the network with all classes.
        indices: of the outputs to keep, in order.
        example: a batch of inputs; only needed if probing the network does not find its inputs.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> network = tiny_resnet()
    >>> inputs = torch.rand(2, 3, 32, 32)
    >>> torch.allclose(with_classes(network, [7, 2])(inputs), network(inputs)[:, [7, 2]], atol=1e-5)
    True
    """
    classifier = Classifier(network, example=example)
    if classifier.num_classes <= len(indices):
        return network
    if max(indices) >= classifier.num_classes or min(indices) < 0 or len(set(indices)) < len(indices):
        raise ValueError(
            f"the classes must be different outputs from 0 to {classifier.num_classes - 1}, got {min(indices)} to "
            f"{max(indices)} in {len(indices)} classes, {len(set(indices))} of them different"
        )
    whole = unwrapped(network)
    if classifier.module is not whole or not _is_plain(classifier.head):
        return MaskedClasses(network, indices)
    chosen = copy.deepcopy(whole)
    _keep_rows(chosen.get_submodule(classifier.head_name or ""), torch.tensor(list(indices)))
    return chosen


@MODELS.register("class_subset")
def class_subset(*, model: str, indices: Sequence[int]) -> nn.Module:
    """A network by name for some of its outputs, such as the 200 of `ImageNetR.class_indices`; the others are masked.

    Suites do that by themselves for data sets with `class_indices`; a card or a service needs the network by name.
    """
    return with_classes(load(model), indices)


def _is_plain(head: nn.Module | None) -> bool:
    return type(head) in (nn.Linear, nn.Conv2d) and head is not None and not is_parametrized(head)


def _keep_rows(head: nn.Module, rows: Tensor) -> None:
    """Reduce a layer of a copy to some of its outputs."""
    assert isinstance(head, (nn.Linear, nn.Conv2d))
    for name, values in list(head.named_parameters()):
        kept = nn.Parameter(values.detach()[rows.to(values.device)].clone(), requires_grad=values.requires_grad)
        setattr(head, name, kept)
    setattr(head, "out_features" if isinstance(head, nn.Linear) else "out_channels", len(rows))
