"""Names of classes: from a file, the network's zoo, or the held-out data, in this order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn


def read_class_names(path: Path, classes: int) -> tuple[str, ...]:
    """Return the names in a text file, one line for each class in order."""
    names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    if len(names) != classes:
        raise ValueError(f"{path} has {len(names)} names, and the network {classes} classes; write one on each line")
    return names


def class_names(network: nn.Module, data: Any, classes: int) -> tuple[str, ...] | None:
    """Return the names that a network of Hugging Face or a data set knows, or None.

    >>> class_names(nn.Identity(), None, 2)
    """
    configs = [getattr(part, "config", None) for part in network.modules()]
    known = [getattr(config, "id2label", None) for config in configs]
    named = [[table[index] for index in sorted(table)] for table in known if isinstance(table, dict)]
    for names in (*named, getattr(data, "class_names", None)):
        if names is not None and len(names) == classes:
            return tuple(str(name) for name in names)
    return None
