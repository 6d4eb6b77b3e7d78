"""Prove that wrapping a network for a method has not changed it: with source statistics it computes the same logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.norm import source_statistics
from holdfast.models.classifier import Classifier
from holdfast.models.probing import random_pair, untouched

__all__ = ["Trace", "WrappingError", "close", "prove_source", "trace"]


class WrappingError(ValueError):
    """The network with its layers prepared for a method is not the network that was given."""


@dataclass(frozen=True)
class Trace:
    """What a network computes on random inputs: its logits, and sum and sum of magnitudes of every module's output."""

    inputs: Tensor
    logits: Tensor
    outputs: Mapping[str, tuple[float, float]]  # in the order in which the modules finish


def trace(model: Classifier, inputs: Tensor | None = None) -> Trace:
    """Run a network once in eval mode on two random inputs, and leave it as it was.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> list(trace(Classifier(tiny_resnet())).outputs)[-2:]
    ['fc', '']
    """
    module = model.module
    inputs = random_pair(module, model.input_spec.shape) if inputs is None else inputs
    outputs: dict[str, tuple[float, float]] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def note(_: nn.Module, _args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                outputs[name] = float(output.sum(dtype=torch.float64)), float(output.abs().sum(dtype=torch.float64))

        return note

    with untouched(module), ExitStack() as hooks:
        for name, part in module.named_modules():
            if not isinstance(part, torch.jit.ScriptModule):
                hooks.callback(part.register_forward_hook(keep(name)).remove)
        torch.default_generator.manual_seed(0)  # for networks that draw at random even in eval mode
        logits = model.read(module(inputs), len(inputs)).clone()
    return Trace(inputs, logits, outputs)


def prove_source(method: nn.Module, source: Trace) -> None:
    """Refuse a method whose networks do not compute the source's logits with source statistics and no update."""
    for model in (part for part in method.modules() if isinstance(part, Classifier)):
        with source_statistics(model):
            try:
                found = trace(model, source.inputs)
            except (RuntimeError, TypeError, AttributeError, IndexError) as error:
                raise WrappingError(
                    f"{type(model.module).__name__} does not run with its normalisation layers replaced ({error}); "
                    "choose a method that changes no layer, such as 'neo', 't3a' or 'lame'"
                ) from error
        if not close(found.logits, source.logits):
            raise WrappingError(_difference(model.module, source, found))


def close(found: Tensor, expected: Tensor, slack: float = 1.0) -> bool:
    """Return whether two tensors are equal but for rounding.

    >>> close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001])), close(torch.ones(1), torch.zeros(1))
    (True, False)
    """
    tolerance = slack * torch.finfo(expected.dtype).eps ** 0.5
    scale = float(expected.nan_to_num().abs().max())
    return torch.allclose(found, expected, rtol=0.0, atol=tolerance * max(scale, 1e-30), equal_nan=True)


def _difference(network: nn.Module, source: Trace, found: Trace) -> str:
    tolerance = torch.finfo(source.logits.dtype).eps ** 0.5
    differs = (
        name
        for name, (total, size) in source.outputs.items()
        if name in found.outputs and abs(found.outputs[name][0] - total) > tolerance * size
    )
    first = next(differs, "")
    layer = type(network.get_submodule(first)).__name__
    largest = float((found.logits - source.logits).abs().max())
    where = f"the first layer that differs is {first!r} ({layer})" if first else "no single layer was found to differ"
    return (
        f"preparing this network changed it: its logits differ by up to {largest:.3g}, and {where}; build the network "
        "with a plain nn.BatchNorm2d there, or choose a method that changes no layer, such as 'neo', 't3a' or 'lame'"
    )
