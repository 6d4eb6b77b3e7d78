"""A snapshot of a model in one piece of memory: hundreds of small tensors cost more than their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Resident"]

ALIGNED = 16  # bytes


@dataclass(frozen=True)
class _Place:
    start: int
    stop: int
    dtype: torch.dtype
    shape: torch.Size
    device: torch.device


@dataclass(frozen=True)
class Resident:
    """A snapshot whose tensors lie one after the other in `content`.

    >>> kept = Resident.of({"weight": torch.ones(2), "seen": [3, torch.tensor(True)]})
    >>> kept.snapshot(), kept.nbytes
    ({'weight': tensor([1., 1.]), 'seen': [3, tensor(True)]}, 32)
    """

    content: Tensor  # (bytes,)
    outline: Any

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> Resident:
        """Pack a snapshot."""
        parts: list[Tensor] = []
        end = 0

        def pack(value: Any) -> Any:
            nonlocal end
            if isinstance(value, Tensor):
                flat = value.detach().cpu().reshape(-1).view(torch.uint8)
                place = _Place(end, end + len(flat), value.dtype, value.shape, value.device)
                gap = -len(flat) % ALIGNED
                parts.extend([flat, flat.new_zeros(gap)] if gap else [flat])
                end += len(flat) + gap
                return place
            if isinstance(value, Mapping):
                return {key: pack(item) for key, item in value.items()}
            return [pack(item) for item in value] if isinstance(value, list) else value

        outline = pack(snapshot)
        return cls(torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8), outline)

    def snapshot(self) -> dict[str, Any]:
        """Return the snapshot; on the CPU its tensors are views of `content`."""

        def unpack(value: Any) -> Any:
            if isinstance(value, _Place):
                flat = self.content[value.start : value.stop].view(value.dtype)
                return flat.reshape(value.shape).to(value.device)
            if isinstance(value, Mapping):
                return {key: unpack(item) for key, item in value.items()}
            return [unpack(item) for item in value] if isinstance(value, list) else value

        return dict(unpack(self.outline))

    @property
    def nbytes(self) -> int:
        """The number of bytes of all tensors."""
        return self.content.nbytes
