"""Find the normalisation layers of a network, and let a `NormLayer` choose the statistics of each BatchNorm layer.

Layers of exactly torch's types are replaced. Every other layer with running statistics (a subclass with an activation
inside, a frozen copy, a layer with hooks) keeps its own code, and its input is restated: normalised with the statistics
of the method, then brought to the mean and variance of the source, which the layer removes again. Whether a layer uses
its statistics as BatchNorm does is tested, not assumed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from holdfast.blocks.norm import NormLayer, NoStatisticsError

Treatment = Literal["replaced", "wrapped", "untouched", "refused"]

EXACT = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
KNOWN = (
    nn.modules.batchnorm._BatchNorm,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.RMSNorm,
    nn.modules.instancenorm._InstanceNorm,
)
TRIAL_SHAPES = ((5, 4), (6,), (), (3, 4, 5))  # of one channel: map, sequence, single value, volume


@dataclass(frozen=True)
class NormAccount:
    """What adaptation does to one normalisation layer, and why."""

    name: str
    kind: str
    treatment: Treatment
    reason: str


def norm_layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the normalisation layers by name: known types, and others that call themselves norm and scale channels.

    >>> [name for name, _ in norm_layers(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)))]
    ['1']
    """
    for name, part in model.named_modules():
        if _normalises(part):
            yield name, part


def account(model: nn.Module) -> list[NormAccount]:
    """Return what a method that uses batch statistics does to each normalisation layer of a network.

    >>> account(nn.Sequential(nn.BatchNorm2d(3), nn.GroupNorm(1, 3)))[0].treatment
    'replaced'
    """
    return [NormAccount(name, type(layer).__name__, *_treatment(layer)) for name, layer in norm_layers(model)]


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether a network has a layer with running statistics to replace.

    >>> has_batch_norm(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)))
    False
    """
    return any(_keeps_statistics(layer) or isinstance(layer, EXACT) for layer in model.modules())


def replace_batch_norm(model: nn.Module, stand_in: Callable[[Any], nn.Module]) -> int:
    """Give each BatchNorm layer the statistics of a `NormLayer` and return how many layers there are.

    A layer that keeps running statistics but does not use them as BatchNorm does is refused by name.
    """
    treated: dict[int, tuple[nn.Module, nn.Module]] = {}  # by id, with the layer itself, so that no id is reused
    parents = [(name, part) for name, part in model.named_modules() if not isinstance(part, (NormLayer, Restated))]
    for parent_name, parent in parents:
        for child_name, child in _children(parent):
            if isinstance(child, NormLayer) or not _normalises(child):
                continue
            treatment, reason = _treatment(child)
            name = f"{parent_name}.{child_name}".removeprefix("module.").removeprefix(".")
            if treatment == "refused":
                raise ValueError(
                    f"layer {name!r} ({type(child).__name__}) {reason}; build the network with nn.BatchNorm2d there, "
                    "or choose a method that changes no layer, such as 'neo', 't3a' or 'lame'"
                )
            if treatment in ("replaced", "wrapped"):
                if id(child) not in treated:
                    try:
                        made = stand_in(child) if treatment == "replaced" else _wrapped(child, stand_in)
                    except NoStatisticsError as error:
                        raise ValueError(f"layer {name!r} ({type(child).__name__}) {error}") from error
                    treated[id(child)] = (child, made)
                setattr(parent, child_name, treated[id(child)][1])
    return len(treated)


def affine_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return weight and bias of every normalisation layer, in module order.

    >>> [tuple(weights.shape) for weights in affine_parameters(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)))]
    [(8,), (8,)]
    """
    shared = {id(parameter): parameter for _, layer in norm_layers(model) for parameter in _affine_of(layer)}
    return list(shared.values())  # layers may share them


def contiguous_group_norm(model: nn.Module) -> None:
    """Give GroupNorm layers that are trained contiguous inputs where torch would crash without them.

    The backward pass of torch's GroupNorm on the CPU writes out of bounds when its input is stored channels last and
    needs no gradient itself, as behind a frozen convolution of permuted images.

    >>> layer = nn.GroupNorm(2, 4)
    >>> contiguous_group_norm(layer)
    >>> layer(torch.rand(2, 5, 5, 4).permute(0, 3, 1, 2)).sum().backward()
    """
    for part in model.modules():
        if isinstance(part, nn.GroupNorm) and _contiguous_input not in part._forward_pre_hooks.values():
            part.register_forward_pre_hook(_contiguous_input)


def release_group_norm(model: nn.Module) -> None:
    """Undo `contiguous_group_norm` in a network that is not trained any more."""
    for part in model.modules():
        for key in [key for key, hook in part._forward_pre_hooks.items() if hook is _contiguous_input]:
            del part._forward_pre_hooks[key]


def _contiguous_input(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    first = inputs[0]
    if (
        torch.is_grad_enabled()
        and not first.requires_grad
        and any(weight.requires_grad for weight in layer.parameters())
    ):
        return (first.contiguous(), *inputs[1:])
    return inputs


class Restated(nn.Module):
    """A layer that keeps its own code, behind a `NormLayer` that brings its input to the source statistics.

    With source statistics the input is passed on unchanged. Other attributes are those of the layer.
    """

    def __init__(self, statistics: NormLayer, layer: nn.Module) -> None:
        super().__init__()
        self.statistics, self.layer = statistics, layer
        self.training = layer.training

    def forward(self, features: Tensor, *args: Any, **options: Any) -> Any:
        """Return what the layer returns for the restated features, (batch, channels, ...)."""
        return self.layer(features if self.statistics.as_source else self.statistics(features), *args, **options)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            layer = vars(self).get("_modules", {}).get("layer")
            if layer is None:
                raise
            return getattr(layer, name)


class _Source(nn.Module):
    """The source statistics of a wrapped layer, with an affine map that leads back to them."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        mean, var = (cast(Tensor, getattr(layer, name)) for name in ("running_mean", "running_var"))
        self.eps, self.momentum = float(layer.eps), getattr(layer, "momentum", 0.1)  # type: ignore[arg-type]
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("weight", (var + self.eps).sqrt())
        self.register_buffer("bias", mean.clone())


def _wrapped(layer: nn.Module, stand_in: Callable[[Any], nn.Module]) -> nn.Module:
    statistics = stand_in(_Source(layer))
    return Restated(statistics, layer) if isinstance(statistics, NormLayer) else layer


def _normalises(part: nn.Module) -> bool:
    if isinstance(part, (NormLayer, *KNOWN)) or _keeps_statistics(part):
        return True
    weight = dict(part.named_parameters(recurse=False)).get("weight")
    return (
        "norm" in type(part).__name__.lower() and weight is not None and weight.numel() == max(weight.shape, default=0)
    )


def _keeps_statistics(part: nn.Module) -> bool:
    if isinstance(part, (NormLayer, nn.modules.instancenorm._InstanceNorm)):
        return False
    return {"running_mean", "running_var"} <= {name for name, _ in part.named_buffers(recurse=False)}


def _children(parent: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the children by name, a layer with two names twice."""
    if isinstance(parent, torch.jit.ScriptModule):
        return list(parent.named_children())
    return [(name, child) for name, child in parent._modules.items() if child is not None]


def _treatment(layer: nn.Module) -> tuple[Treatment, str]:
    """Return what happens to a layer and why."""
    if isinstance(layer, NormLayer):
        return "untouched", "its statistics are adapted already"
    if isinstance(layer, torch.jit.ScriptModule) and _keeps_statistics(layer):
        return "refused", "is TorchScript, whose layers cannot be changed"
    if type(layer) in EXACT and not _has_hooks(layer):
        return "replaced", "its statistics are those of the method"
    if not _keeps_statistics(layer):
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            return "replaced", "it keeps no running statistics"  # which every NormLayer refuses
        own = "its weight and bias can be trained" if _affine_of(layer) else "it has no affine parameters"
        return "untouched", f"it normalises each sample by itself; {own}"
    if not hasattr(layer, "eps"):
        return "refused", "keeps running statistics and has no eps to undo them with"
    if _is_batch_norm_inside(layer):
        return "wrapped", "it keeps its own code; its input is brought to the source statistics"
    return "refused", "keeps running statistics and does not use them as BatchNorm does"


def _affine_of(layer: nn.Module) -> list[nn.Parameter]:
    """Return weight and bias of one layer, where it has them."""
    return [parameter for name, parameter in layer.named_parameters(recurse=False) if name in ("weight", "bias")]


def _has_hooks(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer))


@torch.no_grad()
def _is_batch_norm_inside(layer: nn.Module) -> bool:
    """Return whether new statistics change the output of a layer exactly as restating its input does."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for shape in TRIAL_SHAPES:
            source, changed = (copy.deepcopy(layer).eval() for _ in range(2))
            mean, var = (cast(Tensor, getattr(source, name)) for name in ("running_mean", "running_var"))
            new_mean, new_var = (
                mean + torch.randn(len(mean)).to(mean),
                (var + 1) * (0.5 + torch.rand(len(mean)).to(var)),
            )
            changed.running_mean.copy_(new_mean)  # type: ignore[operator]
            changed.running_var.copy_(new_var)  # type: ignore[operator]
            axes = (-1, *[1] * len(shape))  # those of the channels
            features = new_mean.view(axes) + torch.randn(3, len(mean), *shape).to(mean)
            ratio = ((var + float(source.eps)) / (new_var + float(source.eps))).sqrt()  # type: ignore[arg-type]
            restated = (features - new_mean.view(axes)) * ratio.view(axes) + mean.view(axes)
            try:
                expected, actual = changed(features), source(restated)
            except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, NotImplementedError):
                continue  # the layer does not take this shape
            tolerance = 10 * torch.finfo(mean.dtype).eps ** 0.5 * (float(expected.abs().max()) + 1e-6)
            return expected.shape == actual.shape and torch.allclose(actual, expected, rtol=0.0, atol=tolerance)
    return False
