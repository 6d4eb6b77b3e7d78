"""Fix the statistics of an adapted network, so that a prediction no longer depends on the rest of its batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from holdfast.blocks.norm import NormLayer
from holdfast.blocks.wrapping import Restated


@torch.no_grad()
def freeze_statistics(model: nn.Module, inputs: Tensor | None = None) -> None:
    """Turn each `NormLayer` whose samples share statistics into a plain BatchNorm layer with fixed statistics.

    They are those with which the network normalises `inputs`; layers with stored statistics need none.

    >>> from holdfast.blocks.norm import BatchStatistics
    >>> network = nn.Sequential(BatchStatistics(nn.BatchNorm1d(1)))
    >>> freeze_statistics(network, torch.tensor([[3.0], [5.0]]))
    >>> round(network(torch.tensor([[6.0]])).item(), 3)
    2.0
    """
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, NormLayer)}
    fixed: dict[str, tuple[Tensor, Tensor] | None] = {}
    if inputs is None:
        fixed = {name: layer.fixed_statistics(None) for name, layer in layers.items()}
    else:
        handles = [layer.register_forward_pre_hook(_noting(fixed, name)) for name, layer in layers.items()]
        try:
            model(inputs)
        finally:
            for handle in handles:
                handle.remove()
    for name, layer in layers.items():
        moments = fixed.get(name)
        if moments is None:
            continue
        holder = model.get_submodule(name.rpartition(".")[0])
        if isinstance(holder, Restated):
            name, plain = name.rpartition(".")[0], holder.layer
            plain.running_mean, plain.running_var = moments[0].clone(), moments[1].clone()
        else:
            plain = _Fixed(layer, *moments)
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, plain)


def _noting(fixed: dict[str, tuple[Tensor, Tensor] | None], name: str) -> Callable[[nn.Module, Any], None]:
    def note(layer: nn.Module, args: tuple[Any, ...]) -> None:
        fixed[name] = cast(NormLayer, layer).fixed_statistics(args[0])

    return note


class _Fixed(nn.modules.batchnorm._BatchNorm):
    """BatchNorm with fixed statistics, for inputs with any number of axes."""

    def __init__(self, layer: NormLayer, mean: Tensor, var: Tensor) -> None:
        super().__init__(len(mean), layer.eps, affine=False, device=mean.device, dtype=mean.dtype)
        self.weight, self.bias = layer.weight, layer.bias  # type: ignore[assignment]
        self.running_mean, self.running_var = mean.clone(), var.clone()
        self.eval()

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept any number of axes, as the layer before did."""
