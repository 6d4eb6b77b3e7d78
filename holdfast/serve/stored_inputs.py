"""Inputs that a service keeps on request: one NPY file for each batch, named by its content."""

from __future__ import annotations

import errno
import hashlib
import io
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from holdfast.machine.folders import write_whole
from holdfast.serve.state_folder import private


def stored(folder: Path, tenant: str, batch: int, inputs: Tensor) -> str:
    """Write the inputs of a batch, and return the name of the file in the folder.

    After a crash a tenant counts some batches again; their files have other digests, and all of them stay.
    """
    file = io.BytesIO()
    np.save(file, inputs.detach().cpu().float().numpy() if _unknown(inputs) else inputs.cpu().numpy())
    name = f"inputs/{tenant}/{batch:08d}-{_digest(file.getvalue())}.npy"
    path = folder / name
    made = [] if path.parent.exists() else [path.parent.parent, path.parent]
    write_whole(path, file.getvalue())
    for one in (*made, path):
        private(one)
    return name


def read_stored(folder: Path, name: str) -> Tensor:
    """Return the inputs of a batch, or raise if they are not those that were served."""
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise FileNotFoundError(errno.ENOENT, "they are outside the state folder")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the inputs at {path} are missing ({error.strerror}); restore them from a backup") from error
    if _digest(content) != path.stem.rpartition("-")[2]:
        raise ValueError(f"the inputs at {path} are not those that were served; restore them from a backup")
    return torch.from_numpy(np.load(io.BytesIO(content), allow_pickle=False))


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _unknown(inputs: Tensor) -> bool:
    """Return whether NumPy has no such type."""
    return inputs.dtype is torch.bfloat16
