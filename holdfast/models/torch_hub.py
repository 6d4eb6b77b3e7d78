"""Networks from a folder with a `hubconf.py`, by `hub:folder:entry`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.models.base import MODELS
from holdfast.models.imported import built


@MODELS.register("hub")
def torch_hub(target: str, *, weights: str | None = None, arguments: dict[str, Any] | None = None) -> nn.Module:
    """A network from a local torch hub folder, one with a hubconf.py: `hub:folder:entry`."""
    folder, colon, entry = target.rpartition(":")
    if not colon or not (Path(folder).expanduser() / "hubconf.py").is_file():
        raise ValueError(f"{target!r} names no folder with a hubconf.py; write folder:entry")
    repository = str(Path(folder).expanduser())
    try:
        return built(target, partial(torch.hub.load, repository, entry, source="local"), weights, arguments)
    except RuntimeError as error:
        raise ValueError(f"the hubconf.py of {folder} cannot make {entry!r}: {error}") from error
