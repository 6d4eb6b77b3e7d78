"""State files: one safetensors file with JSON and a checksum in its header; nothing is ever unpickled."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors

from holdfast.machine.folders import write_whole
from holdfast.state.digest import digest_of, divided, joined

SCHEMA = "4"
READ = {"3", SCHEMA}
RENAMED = re.compile(r"^(method|_watching\.[^.]+)\.scale$")  # parts in files of schema 3; now anchor_temperature


class SavedStateError(ValueError):
    """A saved state that cannot be used; the message says why and what to do."""


class OtherStateError(SavedStateError):
    """A saved state that is whole, and of another model, recipe or version."""


def write_state(path: Path, state: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write nested state to one safetensors file with its JSON in the header: completely or not at all."""
    write_whole(path, pack_state(state, header), durably=True)


def pack_state(state: Mapping[str, Any], header: Mapping[str, Any]) -> bytes:
    """Return the content of a state file."""
    outline, tensors = divided(state)
    body = json.dumps({**header, "state": outline})
    metadata = {"holdfast": body, "schema": SCHEMA, "checksum": digest_of(body, tensors)}
    named = {f"{number}": tensor.contiguous().clone() for number, tensor in enumerate(tensors)}
    return dump_tensors(named, metadata)


def read_state(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the nested state and the header that `write_state` wrote."""
    content = path.read_bytes()
    try:
        metadata = _metadata(content)
        with torch.device("cpu"):  # whatever the caller's default is
            tensors = load_tensors(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SavedStateError(f"{path} is damaged ({error}); use another copy of it") from error
    schema = metadata.get("schema", "none")
    if schema not in READ:
        known = " and ".join(sorted(READ))
        raise OtherStateError(
            f"{path} has state schema {schema}, and this version reads {known}; save it again with this version"
        )
    body = metadata.get("holdfast", "")
    try:
        if metadata.get("checksum") != digest_of(body, [tensors[f"{number}"] for number in range(len(tensors))]):
            raise ValueError("its checksum does not match")
        header = json.loads(body)
        state = dict(joined(header.pop("state"), tensors))
        if schema != SCHEMA and "declared" in state:
            state["declared"] = {
                RENAMED.sub(r"\1.anchor_temperature", name): own for name, own in state["declared"].items()
            }
        return state, dict(header)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise SavedStateError(f"{path} is damaged ({error}); use another copy of it") from error


def _metadata(content: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + length]).get("__metadata__") or {})
