"""State is declared once; saving, loading, moving and resetting it is then nobody's job in a subclass."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

__all__ = ["SavedStateError", "Stateful", "read_state", "write_state"]

SCHEMA = 1


class Stateful(nn.Module):
    """A module that says once what changes while it runs: `self.add_state("mean_probs", None)`.

    >>> counter = Stateful(); counter.add_state("seen", 0)
    >>> counter.seen += 5; counter.reset_state(); counter.seen
    0
    """

    def __init__(self) -> None:
        super().__init__()
        self._defaults: dict[str, Any] = {}
        self._kept: set[str] = set()

    def add_state(self, name: str, default: Any, *, kept: bool = False) -> None:
        """Declare an attribute (tensor, number, text, None, or lists and dicts of them); `kept` survives a reset."""
        self._defaults[name] = default
        if kept:
            self._kept.add(name)
        setattr(self, name, copy.deepcopy(default))

    def reset_state(self) -> None:
        """Set every declared attribute, here and in the parts of this module, to its default."""
        for part in self.modules():
            if isinstance(part, Stateful):
                for name, default in part._defaults.items():
                    if name not in part._kept:
                        setattr(part, name, copy.deepcopy(default))

    def get_extra_state(self) -> dict[str, Any]:
        """Return the declared attributes: how they get into torch's `state_dict`."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self._defaults}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Take the declared attributes back from torch's `state_dict`."""
        for name in self._defaults:
            setattr(self, name, copy.deepcopy(state[name]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Stateful:
        # `.to(device)` moves parameters and buffers by itself, and declared tensors here.
        for name in self._defaults:
            setattr(self, name, _map_tensors(fn, getattr(self, name)))
            self._defaults[name] = _map_tensors(fn, self._defaults[name])
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def _map_tensors(fn: Callable[[Tensor], Tensor], value: Any) -> Any:
    if isinstance(value, Tensor):
        return fn(value)
    if isinstance(value, dict):
        return {key: _map_tensors(fn, item) for key, item in value.items()}
    return [_map_tensors(fn, item) for item in value] if isinstance(value, list) else value


class SavedStateError(ValueError):
    """A saved state that cannot be used here; the message says why and what would help."""


def write_state(path: Path, state: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write nested state as one safetensors file with its JSON in the header: whole, or not at all."""
    tensors: dict[str, Tensor] = {}

    def pack(value: Any) -> Any:
        if isinstance(value, Tensor):
            name = f"{len(tensors)}"
            tensors[name] = value.detach().cpu().contiguous().clone()
            return {"tensor": name}
        if isinstance(value, Mapping):
            # Pairs, not an object: an optimiser's state is keyed by integers, which JSON would turn into text.
            return {"pairs": [[key, pack(item)] for key, item in value.items()]}
        if isinstance(value, (list, tuple)):
            return {"list": [pack(item) for item in value]}
        return value

    body = json.dumps({**header, "state": pack(state)})
    metadata = {"holdfast": body, "schema": str(SCHEMA), "checksum": _checksum(body, tensors)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    save_file(tensors, temporary, metadata=metadata)
    os.replace(temporary, path)


def read_state(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the nested state and the header that `write_state` wrote; nothing is ever unpickled."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise SavedStateError(f"{path} is damaged ({error}); use another copy of it") from error
    if metadata.get("schema") != str(SCHEMA):
        found = metadata.get("schema", "none")
        raise SavedStateError(f"{path} has state schema {found}, this version reads {SCHEMA}; save it again with it")
    if metadata.get("checksum") != _checksum(metadata["holdfast"], tensors):
        raise SavedStateError(f"{path} is damaged (its checksum does not fit); use another copy of it")

    def unpack(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return tensors[value["tensor"]]
        if "pairs" in value:
            return {key: unpack(item) for key, item in value["pairs"]}
        return [unpack(item) for item in value["list"]]

    header = json.loads(metadata["holdfast"])
    return unpack(header.pop("state")), header


def _checksum(body: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(body.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
