"""Steppers: the optimisers of trained parameters, whose steps can be pulled, and whose moments are saved."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from holdfast.restorable import Pull


class Stepper(torch.optim.Optimizer):
    """An optimiser whose steps a recovery can pull; the parameters keep the gradient of the loss alone."""

    _pull: Pull | None = None

    def pull_towards(self, pull: Pull | None) -> None:
        """Add a penalty to the gradient of the next steps."""
        self._pull = pull

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take a step on the loss and the penalty of a pull, whose gradient is known."""
        if self._pull is None:
            return super().step(closure)
        pull = self._pull
        gradients = [weight.grad for weight in pull.weights]
        for weight, own, strength, centre in zip(pull.weights, gradients, pull.strengths, pull.centres, strict=True):
            towards = 2 * strength * (weight - centre)
            weight.grad = towards if own is None else own + towards
        super().step(closure)
        for weight, own in zip(pull.weights, gradients, strict=True):
            weight.grad = own
        return None


class Sgd(Stepper, torch.optim.SGD):
    """Stochastic gradient descent."""


class Adam(Stepper, torch.optim.Adam):
    """Adam."""


def make_stepper(
    groups: Sequence[tuple[list[nn.Parameter], float]],
    kind: Literal["sgd", "adam"],
    *,
    momentum: float,
    nesterov: bool,
    betas: tuple[float, float],
    weight_decay: float,
) -> Stepper:
    """Return a stepper of groups of parameters, each with its learning rate."""
    given = [{"params": parameters, "lr": lr} for parameters, lr in groups]
    if kind == "adam":
        return Adam(given, betas=betas, weight_decay=weight_decay, foreach=True)
    return Sgd(given, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, foreach=True)


def moments_of(stepper: Stepper) -> dict[int, Any]:
    """Return the moments of every parameter by its index; empty for those without.

    What is missing in a file is then a fault of the file.
    """
    known = stepper.state_dict()["state"]
    return {index: known.get(index, {}) for index in range(len(_parameters(stepper)))}


def set_moments(stepper: Stepper, moments: Mapping[int, Mapping[str, Any]]) -> None:
    """Set the moments to copies of those that `moments_of` returned; raise if they are of another stepper."""
    _check(moments, stepper)
    known = {index: copy.deepcopy(own) for index, own in moments.items() if own}
    stepper.load_state_dict({"state": known, "param_groups": stepper.state_dict()["param_groups"]})


def _parameters(stepper: Stepper) -> list[nn.Parameter]:
    return [parameter for group in stepper.param_groups for parameter in group["params"]]


def _check(moments: Mapping[int, Mapping[str, Any]], stepper: Stepper) -> None:
    """Raise unless there are moments for each parameter in order, of its shape."""
    expected = {"step", "exp_avg", "exp_avg_sq"} if isinstance(stepper, Adam) else {"momentum_buffer"}
    parameters = _parameters(stepper)
    # Torch counts steps in single precision, unless the default is double.
    counting = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
    if list(moments) != list(range(len(parameters))):
        raise ValueError(f"the optimiser has {len(parameters)} parameters, and moments of {list(moments)}")
    for index, own in moments.items():
        if own and set(own) != expected:
            raise ValueError(f"the optimiser has no such moments: {sorted(own)} of parameter {index}")
        parameter = parameters[index]
        for name, tensor in own.items():
            if tensor is None:  # SGD without momentum, or before its first step
                continue
            shape, dtype = (torch.Size(), counting) if name == "step" else (parameter.shape, parameter.dtype)
            if tensor.shape != shape or tensor.dtype != dtype:
                raise ValueError(f"{name!r} of parameter {index} is {tensor.dtype} of shape {tuple(tensor.shape)}")
