"""Declared state: what a module changes while it runs, and how that is reset, moved, saved and loaded."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor, nn

from holdfast.machine.folders import temporary_for, writing

__all__ = [
    "SavedStateError",
    "Stateful",
    "map_tensors",
    "pack_state",
    "read_state",
    "state_digest",
    "write_durably",
    "write_state",
]

SCHEMA = 2


class Stateful(nn.Module):
    """A module that declares once what changes while it runs: `self.add_state("mean_probs", None)`.

    A declared tensor is replaced by a new one, never written into, so that a failed step can be undone by reference.
    Where replacing is too slow, `write_rows` writes into some rows and remembers the old ones until the step has ended.

    >>> counter = Stateful(); counter.add_state("seen", 0)
    >>> counter.seen += 5; counter.reset_state(); counter.seen
    0
    """

    def __init__(self) -> None:
        super().__init__()
        self.state_defaults: dict[str, Any] = {}
        self.kept_state: set[str] = set()
        self._overwritten: list[tuple[Tensor, Any, Tensor]] | None = None  # what `write_rows` replaced in this step

    def add_state(self, name: str, default: Any, *, kept: bool = False) -> None:
        """Declare an attribute (tensor, number, text, None, or lists and dicts of them); `kept` survives a reset."""
        self.state_defaults[name] = default
        if kept:
            self.kept_state.add(name)
        setattr(self, name, copy.deepcopy(default))

    def write_rows(self, tensor: Tensor, rows: Any, values: Tensor) -> None:
        """Write into rows of a declared tensor; the previous rows are kept while a step could still fail."""
        if self._overwritten is not None:
            self._overwritten.append((tensor, rows, tensor[rows].clone()))
        tensor[rows] = values

    def remember_rows(self) -> int:
        """Keep from now on what `write_rows` overwrites, and return how many writes are kept already."""
        self._overwritten = [] if self._overwritten is None else self._overwritten
        return len(self._overwritten)

    def write_back(self, writes: int) -> None:
        """Undo all but the first of the kept writes, the latest first."""
        while self._overwritten and len(self._overwritten) > writes:
            tensor, rows, values = self._overwritten.pop()
            tensor[rows] = values

    def forget_rows(self) -> None:
        """Drop what `write_rows` has overwritten: it cannot be undone any more."""
        self._overwritten = None

    def reset_state(self) -> None:
        """Set every declared attribute, here and in the parts of this module, to its default."""
        for part in self.modules():
            if isinstance(part, Stateful):
                for name, default in part.state_defaults.items():
                    if name not in part.kept_state:
                        setattr(part, name, copy.deepcopy(default))

    def declared(self) -> dict[str, Any]:
        """Return the defaults of all that `get_extra_state` returns."""
        return dict(self.state_defaults)

    def check_state(self) -> None:
        """Raise a ValueError when loaded values contradict each other; called before a loaded state is accepted."""

    def get_extra_state(self) -> dict[str, Any]:
        """Return a copy of the declared attributes, for torch's `state_dict`."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self.state_defaults}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Set the declared attributes from torch's `state_dict`."""
        for name in self.state_defaults:
            setattr(self, name, copy.deepcopy(state[name]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Stateful:
        # `.to(device)` moves parameters and buffers by itself, and declared tensors here.
        for name in self.state_defaults:
            setattr(self, name, map_tensors(fn, getattr(self, name)))
            self.state_defaults[name] = map_tensors(fn, self.state_defaults[name])
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def map_tensors(fn: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Return nested lists and dicts with a function applied to each tensor.

    >>> map_tensors(torch.neg, {"a": [torch.tensor(1), 2]})
    {'a': [tensor(-1), 2]}
    """
    if isinstance(value, Tensor):
        return fn(value)
    if isinstance(value, Mapping):
        return {key: map_tensors(fn, item) for key, item in value.items()}
    return [map_tensors(fn, item) for item in value] if isinstance(value, list) else value


def state_digest(state: Mapping[str, Any]) -> str:
    """Return the hex digest of nested state: structure, names, types, shapes and every bit of the values.

    >>> state_digest({"seen": 1}) == state_digest({"seen": 1}), state_digest({"seen": 1}) == state_digest({"seen": 2})
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, Mapping):
            for key, item in value.items():
                digest.update(f"{key!r}:".encode())
                add(item)
        elif isinstance(value, (list, tuple)):
            digest.update(f"{len(value)}[".encode())
            for item in value:
                add(item)
        else:
            digest.update(f"{value!r},".encode())

    add(state)
    return digest.hexdigest()


class SavedStateError(ValueError):
    """A saved state that cannot be used; the message says why and what to do."""


def write_state(path: Path, state: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write nested state to one safetensors file with its JSON in the header: completely or not at all."""
    write_durably(path, pack_state(state, header))


def pack_state(state: Mapping[str, Any], header: Mapping[str, Any]) -> bytes:
    """Return the content of a state file."""
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
    return dump_tensors(tensors, metadata)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file in one step after its content has reached the disk: a crash leaves the old file or the new one.

    Each call has a temporary file of its own, so that calls at the same time do not meet. A symbolic link keeps
    pointing to its target, and a device or pipe is written to, not replaced.
    """
    path = path.resolve()
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        path.write_bytes(content)  # a folder says so itself
        return
    temporary = temporary_for(path)
    try:
        with writing(path), temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_state(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the nested state and the header that `write_state` wrote; nothing is ever unpickled."""
    content = path.read_bytes()
    try:
        metadata = _metadata(content)
        tensors = load_tensors(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SavedStateError(f"{path} is damaged ({error}); use another copy of it") from error
    if metadata.get("schema") != str(SCHEMA):
        found = metadata.get("schema", "none")
        raise SavedStateError(
            f"{path} has state schema {found}, and this version reads {SCHEMA}; save it again with this version"
        )
    body = metadata.get("holdfast", "")
    if metadata.get("checksum") != _checksum(body, tensors):
        raise SavedStateError(f"{path} is damaged (its checksum does not match); use another copy of it")

    used: set[str] = set()

    def unpack(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            used.add(value["tensor"])
            return tensors[value["tensor"]]
        if "pairs" in value:
            return {key: unpack(item) for key, item in value["pairs"]}
        return [unpack(item) for item in value["list"]]

    try:
        header = json.loads(body)
        state = unpack(header.pop("state"))
        unpacked = dict(state), dict(header)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SavedStateError(f"{path} is damaged (its header has no such structure); use another copy") from error
    if used != set(tensors):
        raise SavedStateError(f"{path} is damaged (it holds tensors that its header does not name); use another copy")
    return unpacked


def _metadata(content: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    found = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    return dict(found)


def _checksum(body: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(body.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
