"""Read the logits out of what a network returns: a tensor, a tuple, a mapping, or a single logit for two classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

# None: a tensor, or what is called logits; a key or attribute; an index in a tuple; "binary"; or a function.
Output: TypeAlias = "str | int | Callable[[Any], Tensor] | None"


class WrongOutputError(ValueError):
    """The network runs, but does not return logits."""


def logits_of(returned: object, batch_size: int, output: Output = None) -> Tensor:
    """Return the logits, (batch, classes), in what a network returned.

    `output` is a key, an attribute or an index in a tuple; `"binary"` for one logit per sample, which becomes the
    logits [0, z] of two classes; or a function of what the network returned.

    >>> logits_of({"logits": torch.zeros(2, 3)}, 2).shape, logits_of((None, torch.zeros(2, 3)), 2, 1).shape
    (torch.Size([2, 3]), torch.Size([2, 3]))
    >>> logits_of(torch.tensor([[1.5]]), 1, "binary")
    tensor([[0.0000, 1.5000]])
    """
    logits = finish(pick(returned, output), output)
    if logits.dim() == 2 and logits.shape[0] == batch_size and logits.shape[1] >= 2:
        return logits
    shape = tuple(logits.shape)
    if shape in ((batch_size,), (batch_size, 1)) and output is None:
        raise WrongOutputError(
            f"the network returns one value for each input, shape {shape}; pass output='binary' if it is the logit of "
            "a two-class problem"
        )
    raise WrongOutputError(
        f"the network returns shape {shape} for {batch_size} inputs; return logits (batch, classes), or pass output= "
        "with a function that computes them"
    )


def pick(returned: object, output: Output = None) -> Tensor:
    """Return the tensor that holds the logits."""
    picked: object = returned
    if callable(output):
        picked = output(returned)
    elif isinstance(output, int):
        picked = returned[output] if isinstance(returned, Sequence) and output < len(returned) else None
    elif not isinstance(returned, Tensor):
        name = "logits" if output in (None, "binary") else output
        picked = returned.get(name) if isinstance(returned, Mapping) else getattr(returned, str(name), None)
    if isinstance(picked, Tensor):
        return picked
    raise WrongOutputError(f"the network returns {_described(returned)}{_remedy(returned, output)}")


def finish(logits: Tensor, output: Output = None) -> Tensor:
    """Return the logits for the tensor that was picked: of one logit those of two classes, any other as it is."""
    if output != "binary":
        return logits
    column = logits.reshape(len(logits), -1)
    if column.shape[1] != 1:
        raise WrongOutputError(
            f"output='binary' is for one logit per input, and the network returns shape {tuple(logits.shape)}; "
            "leave output= out"
        )
    return torch.cat([torch.zeros_like(column), column], 1)


def are_probabilities(logits: Tensor) -> bool:
    """Return whether rows are probabilities: not negative, and with a sum of 1.

    >>> are_probabilities(torch.tensor([[0.2, 0.8]])), are_probabilities(torch.tensor([[-1.0, 2.0]]))
    (True, False)
    """
    return bool((logits >= 0).all()) and torch.allclose(logits.sum(1), logits.new_ones(()), atol=1e-3)


def _described(returned: object) -> str:
    if isinstance(returned, Mapping):
        return f"a mapping with the keys {', '.join(map(repr, returned))}"
    if isinstance(returned, (tuple, list)):
        return f"a {type(returned).__name__} of {len(returned)}"
    return type(returned).__name__


def _remedy(returned: object, output: Output) -> str:
    given = "" if output is None else f", which has no tensor for output={output!r}"
    if isinstance(returned, (tuple, list)):
        return f"{given}; pass output= with the place of the logits, e.g. output=0"
    if isinstance(returned, Mapping):
        return f"{given}; pass output= with the key of the logits"
    return f"{given}; return logits, a tensor (batch, classes), or pass output= with a function that computes them"
