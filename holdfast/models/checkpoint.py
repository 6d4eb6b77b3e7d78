"""Read weights from a file without running code from it: safetensors, or tensors alone out of a pickle."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)
CONTAINERS = ("state_dict", "model", "net", "weights")  # keys under which training scripts keep the weights
PREFIXES = ("module.", "_orig_mod.", "model.", "1.")  # of DataParallel, torch.compile, wrappers and a Sequential


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file or of a torch checkpoint, by name.

    Checkpoints are read with `torch.load(weights_only=True)`, which builds tensors and plain containers only.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ValueError(f"there are no weights at {path}; pass the path of a safetensors or torch file")
    try:
        content = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except pickle.UnpicklingError as error:  # what torch says of it is several pages long
        raise ValueError(
            f"{path} cannot be read as weights: it holds more than tensors, or something else; save the weights alone "
            "with torch.save(network.state_dict(), path)"
        ) from error
    except (SafetensorError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{path} cannot be read as weights ({error}); save it with safetensors.torch.save_file, or as a state dict"
        ) from error
    for key in CONTAINERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} holds no state dict; save it with torch.save(network.state_dict(), path)")
    return {str(name): tensor for name, tensor in content.items()}


def load_checkpoint(module: ModuleT, path: str | Path, *, ignored: Collection[str] = ()) -> ModuleT:
    """Load a checkpoint into a network, every name accounted for, and return it in eval mode.

    Tensors whose last name is in `ignored` may be there and are left out.
    """
    tensors, wanted = read_checkpoint(path), set(module.state_dict())
    tensors = {name: tensor for name, tensor in tensors.items() if name.rpartition(".")[2] not in ignored}
    for prefix in PREFIXES:
        if not wanted & set(tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    missing, unknown = sorted(wanted - set(tensors)), sorted(set(tensors) - wanted)
    if missing or unknown:
        raise ValueError(
            f"{path} does not fit {type(module).__name__}: {len(missing)} of {len(wanted)} tensors are missing"
            f"{_first(missing)} and {len(unknown)} are unknown{_first(unknown)}; check the architecture and its options"
        )
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit {type(module).__name__}: {error}") from error
    return module.eval()


def _first(names: list[str]) -> str:
    return f" (first {names[0]})" if names else ""
