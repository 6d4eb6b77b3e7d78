"""Prove that wrapping a network for a method has not changed it: with source statistics it computes the same logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.comparing import close
from holdfast.blocks.norm import NormLayer, source_statistics
from holdfast.models.classifier import Classifier
from holdfast.models.probing import untouched

ANOTHER_METHOD = "choose a method that changes no layer, such as 'neo', 't3a' or 'lame'"


class WrappingError(ValueError):
    """The network with its layers prepared for a method is not the network that was given."""


@dataclass(frozen=True)
class Trace:
    """What a network computes on two inputs: its logits, and sum and sum of magnitudes of every module's output."""

    inputs: Tensor
    logits: Tensor
    outputs: Mapping[str, tuple[Tensor, Tensor]]  # in the order in which the modules finish
    differentiable: bool  # whether a gradient can be taken of the logits; only if it was asked for


def trace(model: Classifier, inputs: Tensor | None = None, *, gradients: bool = False) -> Trace:
    """Run a network once in eval mode on two inputs, and leave it as it was.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> list(trace(Classifier(tiny_resnet())).outputs)[-2:]
    ['fc', '']
    """
    module = model.module
    inputs = model.trial_inputs() if inputs is None else inputs
    outputs: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def note(_: nn.Module, _args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                values = output.detach()
                outputs[name] = values.sum(dtype=torch.float64), values.abs().sum(dtype=torch.float64)

        return note

    with untouched(module), ExitStack() as hooks, torch.set_grad_enabled(gradients):
        for name, part in module.named_modules():
            if not isinstance(part, torch.jit.ScriptModule):
                hooks.callback(part.register_forward_hook(keep(name)).remove)
        torch.default_generator.manual_seed(0)  # for networks that draw at random even in eval mode
        logits = model.read(module(inputs), len(inputs))
    return Trace(inputs, logits.detach().clone(), outputs, logits.requires_grad)


def prove_source(method: nn.Module, source: Trace) -> None:
    """Refuse a method whose networks do not compute the source's logits with source statistics and no update."""
    for model in (part for part in method.modules() if isinstance(part, Classifier)):
        trained = any(parameter.requires_grad for parameter in model.parameters())
        wrapped = _retraced(model, source, gradients=trained)
        if not close(wrapped.logits, source.logits):
            raise WrappingError(_difference(model.module, source, wrapped))
        if trained and not wrapped.differentiable:
            raise WrappingError(
                f"no gradient reaches the weights of {type(model.module).__name__}: it predicts under torch.no_grad(), "
                "detaches its features, or uses checkpoint(…, use_reentrant=True); change that, or choose a method "
                "that trains no weights, such as 'neo' or 'lame'"
            )
        _prove_calls(model, source, wrapped)


def _retraced(model: Classifier, source: Trace, *, gradients: bool = False) -> Trace:
    with source_statistics(model):
        try:
            return trace(model, source.inputs, gradients=gradients)
        except (RuntimeError, TypeError, AttributeError, IndexError) as error:
            never_called = next(iter(_silent(model, source)), None)
            which = "" if never_called is None else f" and never calls {never_called!r}"
            raise WrappingError(
                f"{type(model.module).__name__} does not run with its normalisation layers replaced ({error}){which}; "
                f"let it call these layers instead of reading their attributes, or {ANOTHER_METHOD}"
            ) from error


def _prove_calls(model: Classifier, source: Trace, wrapped: Trace) -> None:
    """Refuse layers that the network does not call but whose statistics it uses: adapting them would do nothing."""
    for name, layer in _silent(model, source).items():
        before = layer.source_mean.clone()
        layer.source_mean.add_(1)
        try:
            changed = not torch.equal(_retraced(model, source).logits, wrapped.logits)
        finally:
            layer.source_mean.copy_(before)
        if changed:
            raise WrappingError(
                f"the network uses the statistics of {name!r} without calling the layer, so adapting it would have no "
                f"effect; call the layer instead of passing its buffers to F.batch_norm, or {ANOTHER_METHOD}"
            )


def _silent(model: Classifier, source: Trace) -> dict[str, NormLayer]:
    """Return the layers with statistics that the source does not call, by name."""
    return {
        name: layer
        for name, layer in model.module.named_modules()
        if isinstance(layer, NormLayer)
        and not {name, name.removesuffix(".statistics"), name.removesuffix(".tap")} & set(source.outputs)
    }


def _difference(network: nn.Module, source: Trace, wrapped: Trace) -> str:
    largest = float((wrapped.logits - source.logits).abs().max())
    change = f"preparing this network changed it: its logits differ by up to {largest:.3g}, and "
    missing = next((name for name in source.outputs if name not in wrapped.outputs), None)
    if missing is not None:
        return (
            f"{change}{missing!r} is no longer called; do not choose layers by their type in forward(), or "
            f"{ANOTHER_METHOD}"
        )
    tolerance = torch.finfo(source.logits.dtype).eps ** 0.5
    differs = (
        name
        for name, (total, size) in source.outputs.items()
        if abs(float(wrapped.outputs[name][0] - total)) > tolerance * float(size)
    )
    first = next(differs, "")
    layer = type(network.get_submodule(first)).__name__
    where = f"the first layer that differs is {first!r} ({layer})" if first else "no single layer was found to differ"
    return f"{change}{where}; build the network with a plain nn.BatchNorm2d there, or {ANOTHER_METHOD}"
