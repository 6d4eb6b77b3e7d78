"""Other ways to run a frozen network: faster, and equal but for rounding."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from holdfast.models.classifier import Classifier
from holdfast.models.memory_format import quicken
from holdfast.models.probing import untouched

EngineName = Literal["exact", "folded", "bfloat16", "compiled"]
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class SourceEngine:
    """Runs a frozen classifier: as it is ("exact"), or as a copy that is made at the first batch.

    "folded" multiplies BatchNorm layers into the convolutions before them and stores channels last: logits differ by at
    most 1e-6 of the largest, on average by less than 2e-7. "bfloat16" computes with 8 bits of mantissa: they differ by
    one or two hundredths of it. "compiled" is torch.compile, which needs a C++ compiler and up to a minute for each new
    shape; its logits differ as those of "folded".

    >>> from holdfast.models.tiny import tiny_resnet
    >>> network, batch = Classifier(tiny_resnet().eval()), torch.rand(4, 3, 32, 32)
    >>> with torch.no_grad():
    ...     torch.allclose(SourceEngine("folded")(network, batch), SourceEngine("exact")(network, batch), atol=1e-5)
    True
    """

    def __init__(self, name: EngineName = "exact") -> None:
        if name not in get_args(EngineName):
            raise ValueError(f"source_engine must be one of {', '.join(get_args(EngineName))}, got {name!r}")
        self.name = name
        self._made: tuple[torch.device, torch.dtype, nn.Module] | None = None

    def __reduce__(self) -> tuple[type[SourceEngine], tuple[EngineName]]:
        return SourceEngine, (self.name,)  # copies make their own

    def __call__(self, network: Classifier, inputs: Tensor) -> Tensor:
        """Return the logits of a batch, and count its samples in the network."""
        if self.name == "exact":
            logits: Tensor = network(inputs)
            return logits
        device, dtype = network.device, network.dtype
        if self._made is None or self._made[:2] != (device, dtype):
            self._made = device, dtype, self._copy_of(network)
        given = inputs.to(torch.bfloat16) if self.name == "bfloat16" and inputs.is_floating_point() else inputs
        return network.by(self._made[2], given).to(dtype)

    def _copy_of(self, network: Classifier) -> nn.Module:
        copied = copy.deepcopy(network.module).eval().requires_grad_(False)
        if self.name == "bfloat16":
            return copied.to(torch.bfloat16)
        if self.name == "compiled":
            compiled: Any = torch.compile(copied)
            return compiled  # type: ignore[no-any-return]
        return folded(copied, network.trial_inputs())


@torch.no_grad()
def folded(network: nn.Module, trial: Tensor) -> nn.Module:
    """Return a network with each BatchNorm layer multiplied into the convolution whose output alone it takes.

    Which convolution that is shows in a trial; where it would change the network, the layer stays as it is.

    >>> network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4)).eval()
    >>> [type(layer).__name__ for layer in folded(network, torch.rand(1, 3, 8, 8))]
    ['Conv2d', 'Identity', 'ReLU', 'BatchNorm2d']
    """
    outputs: list[tuple[nn.Module, Tensor]] = []  # kept alive, so that no address is used again
    calls: dict[nn.Module, int] = {}
    pairs: dict[nn.Module, nn.Module] = {}

    def note(layer: nn.Module, args: Any, output: Any) -> None:
        calls[layer] = calls.get(layer, 0) + 1
        if isinstance(layer, NORMS):
            pairs.update((layer, before) for before, made in outputs if made is args[0])
        elif isinstance(output, Tensor):
            outputs.append((layer, output))

    kinds = CONVOLUTIONS + NORMS
    with ExitStack() as hooks, untouched(network):
        for part in network.modules():
            if isinstance(part, kinds):
                hooks.enter_context(part.register_forward_hook(note))
        expected = network(trial)
    once = [
        (convolution, norm)
        for norm, convolution in pairs.items()
        if calls[norm] == calls[convolution] == 1 and norm.running_mean is not None
    ]
    if not _folds(network, once, trial, expected):  # the output of some convolution is used elsewhere too
        for pair in once:
            _folds(network, [pair], trial, expected)
    quicken(network, trial)
    return network


def _folds(network: nn.Module, pairs: list[tuple[nn.Module, nn.Module]], trial: Tensor, expected: Any) -> bool:
    """Fold layers, and undo it if that changes what the network returns; return whether it does not."""
    names = {part: name for name, part in network.named_modules()}
    for convolution, norm in pairs:
        _replace(network, names[convolution], fuse_conv_bn_eval(convolution, norm))  # type: ignore[type-var, arg-type]
        _replace(network, names[norm], nn.Identity())
    if _same(network(trial), expected):
        return True
    for pair in pairs:
        for part in pair:
            _replace(network, names[part], part)
    return False


def _replace(network: nn.Module, name: str, part: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, part)


def _same(one: Any, other: Any) -> bool:
    return not isinstance(one, Tensor) or torch.allclose(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))
