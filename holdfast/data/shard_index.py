"""The index of a shard: where its images are and what they are, in a small file beside the shard.

Reading 7.5 million headers takes half an hour; reading their indices takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.machine.folders import write_whole

END = 1 << 16  # bytes at either end of a shard that, with its size, identify it


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """Place, label and stated corruptions of every sample of a shard."""

    offsets: NDArray[np.int64]  # of the images, in bytes
    sizes: NDArray[np.int32]
    labels: NDArray[np.int32]
    combinations: tuple[tuple[str, ...], ...]  # distinct corruptions
    combination_of: NDArray[np.int32]
    expected: NDArray[np.float32]  # accuracy of the calibrated network, empty where it is not known

    @staticmethod
    def of(
        extents: Sequence[tuple[int, int]],
        labels: Sequence[int],
        stated: Sequence[tuple[str, ...]],
        expected: Sequence[float] = (),
    ) -> ShardIndex:
        """Return the index of samples in their order.

        >>> ShardIndex.of([(512, 100), (2048, 90)], [3, 1], [("fog",), ("fog",)]).combination_of.tolist()
        [0, 0]
        """
        index = {corruptions: number for number, corruptions in enumerate(dict.fromkeys(stated))}
        offsets, sizes = np.array(extents, np.int64).reshape(-1, 2).T
        return ShardIndex(
            offsets.copy(),
            sizes.astype(np.int32),
            np.array(labels, np.int32),
            tuple(index),
            np.array([index[corruptions] for corruptions in stated], np.int32),
            np.array(expected, np.float32),
        )

    def save(self, shard: Path, content: Path | None = None) -> None:
        """Write the index beside its shard, completely or not at all; in a folder that is read-only, do nothing.

        `content` is the file that will become the shard.
        """
        arrays = {name: value for name, value in vars(self).items() if name != "combinations"}
        stored = BytesIO()
        np.savez(stored, **arrays, combinations=json.dumps(self.combinations), shard=_identity(content or shard))
        with suppress(PermissionError):
            write_whole(index_path(shard), stored.getvalue())


def index_path(shard: Path) -> Path:
    """Return where the index of a shard is.

    >>> index_path(Path("serial_00000.tar")).name
    'serial_00000.index.npz'
    """
    return shard.with_suffix(".index.npz")


def load_index(shard: Path) -> ShardIndex | None:
    """Return the index beside a shard; None if there is none, it is damaged, or the shard has changed since."""
    try:
        with np.load(index_path(shard), allow_pickle=False) as stored:
            if str(stored["shard"]) != _identity(shard):
                return None
            combinations = tuple(map(tuple, json.loads(str(stored["combinations"]))))
            arrays = {each.name: stored[each.name] for each in fields(ShardIndex) if each.name != "combinations"}
            return ShardIndex(combinations=combinations, **arrays)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def _identity(shard: Path) -> str:
    """Return the size of a shard and a digest of its two ends."""
    with shard.open("rb") as file:
        content = hashlib.blake2b(file.read(END), digest_size=16)
        size = file.seek(0, 2)
        file.seek(max(0, size - END))
        content.update(file.read())
    return f"{size} {content.hexdigest()}"
