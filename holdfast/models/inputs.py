"""Inputs by name, as Hugging Face networks take them: `pixel_values=…`, or a mapping with one tensor."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

LABELS = ("labels", "label")  # in mappings that data loaders return


def single_input(inputs: Tensor | Mapping[str, Tensor] | None, named: Mapping[str, Tensor]) -> Tensor:
    """Return the one batch among inputs that were passed by place, in a mapping or by keyword.

    A mask of ones changes nothing and is left out.

    >>> import torch
    >>> single_input({"pixel_values": torch.zeros(2, 3)}, {}).shape, single_input(None, {"x": torch.zeros(1)}).shape
    (torch.Size([2, 3]), torch.Size([1]))
    """
    if isinstance(inputs, Mapping):
        named, inputs = {**inputs, **named}, None
    if not named:
        return cast(Tensor, inputs)  # anything else is refused by name later
    given = {name: value for name, value in named.items() if not _changes_nothing(name, value)}
    if inputs is not None or len(given) != 1:
        names = ", ".join([*(["inputs"] if inputs is not None else []), *given]) or "none"
        raise ValueError(
            f"one batch is predicted at a time, got {names}; pass a single tensor, such as pixel_values=…, and bring "
            "samples to one length instead of masking them"
        )
    return next(iter(given.values()))


def inputs_and_labels(batch: Tensor | Sequence[Any] | Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Return the inputs of a batch from a data loader and its labels, if it has any, as a tensor.

    >>> import torch
    >>> inputs, labels = inputs_and_labels({"pixel_values": torch.zeros(2, 3), "labels": torch.tensor([0, 1])})
    >>> inputs.shape, labels.tolist()
    (torch.Size([2, 3]), [0, 1])
    """
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in LABELS if name in batch), None)
    else:
        labels = batch[1] if isinstance(batch, Sequence) and len(batch) > 1 else None
    return inputs_alone(batch), None if labels is None else torch.as_tensor(labels)


def inputs_alone(batch: Tensor | Sequence[Any] | Mapping[str, Tensor]) -> Tensor:
    """Return the inputs of a batch from a data loader; its labels are never looked at.

    >>> import torch
    >>> inputs_alone((torch.zeros(2, 3), "labels")).shape
    torch.Size([2, 3])
    """
    if isinstance(batch, Mapping):
        return single_input({name: value for name, value in batch.items() if name not in LABELS}, {})
    return single_input(batch[0], {}) if isinstance(batch, Sequence) else batch


class NamedInput(nn.Module):
    """A network that takes its one input by keyword or in a mapping, behind a forward that takes a tensor."""

    def __init__(self, module: nn.Module, name: str, style: Literal["keyword", "mapping"]) -> None:
        super().__init__()
        self.module, self.name, self.style = module, name, style
        self.training = module.training

    def forward(self, inputs: Tensor) -> object:
        """Return what the network returns."""
        return self.module(**{self.name: inputs}) if self.style == "keyword" else self.module({self.name: inputs})


def taking_tensors(module: nn.Module, example: Tensor | Mapping[str, Tensor] | None) -> tuple[nn.Module, Tensor | None]:
    """Return a network that takes a tensor by place, and the tensor in the example.

    The example of a network that takes a keyword or a mapping is a mapping with one tensor. A network whose only input
    is a keyword needs none.
    """
    parameters = inspect.signature(module.forward).parameters
    if isinstance(example, Mapping):
        tensor = single_input(example, {})
        name = next(name for name, value in example.items() if value is tensor)
        named = name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        if name == next(iter(parameters), None) and parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY:
            return module, tensor
        return NamedInput(module, name, "keyword" if named else "mapping"), tensor
    required = [
        each for each in parameters.values() if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    ]
    needed = [each.name for each in required if each.kind is not each.VAR_POSITIONAL]
    if len(needed) > 1:
        raise ValueError(
            f"{type(module).__name__} takes {len(needed)} inputs, {', '.join(needed)}, and one tensor is predicted at "
            "a time; pass a module around it whose forward takes one tensor, such as both inputs in one"
        )
    if len(required) == 1 and required[0].kind is inspect.Parameter.KEYWORD_ONLY:
        return NamedInput(module, required[0].name, "keyword"), example
    return module, example


def _changes_nothing(name: str, value: Any) -> bool:
    return value is None or ("mask" in name and isinstance(value, Tensor) and bool(value.all()))
