"""Export a method as a plain module, and prove that it predicts what the method predicts."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from holdfast.blocks.comparing import close
from holdfast.blocks.freezing import freeze_statistics
from holdfast.blocks.wrapping import release_group_norm
from holdfast.methods._base import METHODS, Method
from holdfast.methods._proof import WrappingError
from holdfast.models.outputs import logits_of

Statistics: TypeAlias = Literal["batch", "frozen"]

PROBE_SAMPLES = 4
ROUNDING = 30.0  # fixed statistics are computed in another order than those of a batch


@torch.no_grad()
def export(method: Method, statistics: Statistics = "batch", inputs: Tensor | None = None) -> nn.Module:
    """Return the predicting network as a plain module that no longer adapts, and check its predictions once.

    With `statistics="batch"` the module predicts exactly as the method does while it is paused: where the method
    normalises with the statistics of each batch, so does the module. With `"frozen"` these are fixed to those of
    `inputs`, and a prediction no longer depends on the rest of its batch.
    """
    if statistics not in get_args(Statistics):
        raise ValueError(f"statistics must be 'batch' or 'frozen', got {statistics!r}")
    name = METHODS.name_of(type(method))
    if statistics == "frozen" and method.predicts_jointly:
        raise ValueError(
            f"{name!r} predicts the samples of a batch jointly, whatever the statistics; export it with "
            "statistics='batch', or adapt with a method that predicts each sample by itself, such as 'tent'"
        )
    module = method.export()
    release_group_norm(module)
    if statistics == "frozen":
        freeze_statistics(module, inputs)
    probe = method.model.trial_inputs(PROBE_SAMPLES) if inputs is None else inputs
    expected, exported = _paused_prediction(method, probe), _prediction(method, module, probe)
    if not close(exported, expected, 1.0 if statistics == "batch" else ROUNDING):
        largest = float((exported - expected).abs().max())
        raise WrappingError(
            f"the exported module of {name!r} predicts logits that differ by up to {largest:.3g} from the method's; "
            "export with statistics='batch', or report it"
        )
    if statistics == "frozen" and not close(_prediction(method, module, probe[-1:]), exported[-1:], ROUNDING):
        raise WrappingError(
            f"with fixed statistics a prediction of {name!r} still depends on its batch; export it with "
            "statistics='batch'"
        )
    return module


def _prediction(method: Method, module: nn.Module, inputs: Tensor) -> Tensor:
    returned = module(inputs)
    # A method's own module returns logits, whatever the network inside it returns.
    plain = isinstance(returned, Tensor) and returned.shape == (len(inputs), method.model.num_classes)
    return returned if plain else logits_of(returned, len(inputs), method.model.output)


def _paused_prediction(method: Method, inputs: Tensor) -> Tensor:
    """Return what the method predicts without learning, and leave it as it was."""
    before = method.paused
    method.pause()
    try:
        return method.predict(inputs)
    finally:
        method.pause(before)
