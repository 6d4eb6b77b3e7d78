"""A snapshot of a model in one piece of memory: hundreds of small tensors cost more than their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.state import rebuild

ALIGNED = 16  # bytes


@dataclass(frozen=True)
class _Stretch:
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

        def pack(leaf: Any) -> Any:
            nonlocal end
            if not isinstance(leaf, Tensor):
                return leaf
            flat = leaf.detach().cpu().reshape(-1).view(torch.uint8)
            stretch = _Stretch(end, end + len(flat), leaf.dtype, leaf.shape, leaf.device)
            gap = -len(flat) % ALIGNED
            parts.extend([flat, flat.new_zeros(gap)] if gap else [flat])
            end += len(flat) + gap
            return stretch

        outline = rebuild(pack, snapshot)
        return cls(torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8), outline)

    def snapshot(self) -> dict[str, Any]:
        """Return the snapshot; on the CPU its tensors are views of `content`."""

        def unpack(leaf: Any) -> Any:
            if not isinstance(leaf, _Stretch):
                return leaf
            flat = self.content[leaf.start : leaf.stop].view(leaf.dtype)
            return flat.reshape(leaf.shape).to(leaf.device)

        return dict(rebuild(unpack, self.outline))

    @property
    def nbytes(self) -> int:
        """The number of bytes of all tensors."""
        return self.content.nbytes
