"""RobustBench checkpoints, in the one file that imports `robustbench`."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from holdfast.models.base import MODELS
from holdfast.models.checkpoint import load_checkpoint
from holdfast.registry import UnknownNameError, nearest


@MODELS.register("robustbench")
def robustbench(name: str, *, folder: str = "models") -> nn.Module:
    """A RobustBench network from its downloaded checkpoint: `robustbench:cifar10/corruptions/Standard`.

    `folder` is where RobustBench saves its models, as `folder/cifar10/corruptions/Standard.pt`. The architecture comes
    from the package `robustbench`, and normalisation is part of it: inputs are images in [0, 1].
    """
    parts = name.split("/")
    if len(parts) != 3:
        raise ValueError(f"{name!r} is not dataset/threat/name; write e.g. robustbench:cifar10/corruptions/Standard")
    dataset, threat, model = parts
    try:
        from robustbench.model_zoo.models import model_dicts
    except (ImportError, RuntimeError) as error:
        raise ImportError(f"robustbench cannot be imported ({error}): pip install robustbench") from error
    shelves = {
        f"{data.value}/{kind.value}": models for data, kinds in model_dicts.items() for kind, models in kinds.items()
    }
    shelf = f"{dataset}/{threat}"
    if shelf not in shelves:
        raise UnknownNameError(f"RobustBench has no models for {shelf}; {nearest(shelf, shelves)}")
    if model not in shelves[shelf]:
        raise UnknownNameError(f"RobustBench has no model {model!r} for {shelf}; {nearest(model, shelves[shelf])}")
    path = Path(folder).expanduser() / dataset / threat / f"{model}.pt"
    if not path.is_file():
        raise ValueError(
            f"there is no checkpoint {path}; download it with robustbench.load_model({model!r}, {folder!r}, "
            f"{dataset!r}, {threat!r}), or pass folder= with the place of your copy"
        )
    network: nn.Module = shelves[shelf][model]["model"]()
    return load_checkpoint(network, path)
