"""Sharpness-aware minimisation: evaluate the loss at the worst nearby weights and step with its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call


def climb(
    network: nn.Module, parameters: Sequence[nn.Parameter], loss: Tensor, radius: float
) -> Callable[[Tensor], Tensor]:
    """Return the network at θ + ρ g / ‖g‖₂, approximately the worst weights nearby (Foret et al., ICLR 2021).

    The norm is over all parameters together. The parameters themselves are unchanged, and a loss on the returned
    network's output sends its gradient directly to them, so one ordinary `backward` and any optimiser follow. Calling
    this costs one backward pass.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.ones_(layer.weight)
    >>> nearby = climb(layer, [layer.weight], layer(torch.tensor([[3.0, 4.0]])).sum(), radius=1.0)
    >>> nearby(torch.eye(2)).flatten().tolist(), layer.weight.tolist()
    ([1.600000023841858, 1.7999999523162842], [[1.0, 1.0]])
    """
    gradients = torch.autograd.grad(loss, list(parameters), materialize_grads=True)
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    steps = torch._foreach_mul(gradients, radius / (norm + 1e-12))
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    climbed = {names[id(old)]: old + step for old, step in zip(parameters, steps, strict=True)}
    return partial(functional_call, network, climbed)
