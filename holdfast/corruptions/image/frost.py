"""Frost: blend the image with a texture of ice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions import fast
from holdfast.corruptions.base import CORRUPTIONS, Corruption, Images, Rng
from holdfast.corruptions.draws import integers
from holdfast.corruptions.image.texture import ice_textures
from holdfast.corruptions.listing import files_in, read_image
from holdfast.corruptions.samples import as_image

Texture = NDArray[np.uint8]  # (height, width, 3)
PUBLISHED = [f"frost{number}" for number in range(1, 6)]  # the published code has six files and never draws the last

TABLES = {  # weights of image and ice, scale of the textures
    "32": ((1, 0, 0.2), (1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
    "64": ((1, 0, 0.3), (1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)),
    "224": ((1, 0, 1), (1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
}


def _frost(name: str, load: Callable[[], Sequence[Texture]], source: str) -> Corruption:
    @lru_cache(maxsize=8)
    def textures(size: float, height: int, width: int) -> list[Texture]:
        return [_covering(_shrunk(texture, size), height, width) for texture in load()]

    def draw(rng: Rng, image: Images, _clear: float, _ice: float, size: float) -> tuple[Any, ...]:
        height, width = image.shape[:2]
        choices = textures(size, height, width)
        choice = integers(rng, 0, len(choices))
        rows, columns, _ = choices[int(choice)].shape
        return choice, integers(rng, 0, max(rows - height, 1)), integers(rng, 0, max(columns - width, 1))

    def apply(
        images: Images,
        choice: NDArray[Any],
        row: NDArray[Any],
        column: NDArray[Any],
        clear: float,
        ice: float,
        size: float,
    ) -> Images:
        """Look through a window covered with ice."""
        height, width = images.shape[1:3]
        choices = textures(size, height, width)
        corners = zip(choice, row, column, strict=True)
        crops = np.stack([choices[t][r : r + height, c : c + width] for t, r, c in corners])
        if loops := fast.loops():
            covered = loops.paired(images.reshape(-1), crops.reshape(-1), _covered(clear, ice))
            return covered.reshape(images.shape)  # type: ignore[no-any-return]
        return np.clip(clear * images + ice * crops, 0, 255).astype(np.uint8)

    return Corruption(name, TABLES, apply, draw, source=source)


@lru_cache(maxsize=32)
def _covered(clear: float, ice: float) -> NDArray[np.uint8]:
    """Return the level of a value by its own level and that of the texture."""
    levels = np.arange(256)
    return np.clip(clear * levels[:, None] + ice * levels, 0, 255).astype(np.uint8)


def _shrunk(texture: Texture, size: float) -> Texture:
    """Return a texture at a fraction of its size, interpolated between pixels: at 1/5, every fifth pixel."""
    if size == 1:
        return texture
    values = texture.astype(np.float64)
    for axis in (0, 1):
        length = values.shape[axis]
        positions = np.clip((np.arange(round(length * size)) + 0.5) / size - 0.5, 0, length - 1)
        below = positions.astype(int)
        share = (positions - below).reshape((-1, 1, 1) if axis == 0 else (-1, 1))
        above = np.minimum(below + 1, length - 1)
        values = values.take(below, axis) * (1 - share) + values.take(above, axis) * share
    return np.rint(values).astype(np.uint8)


def _covering(texture: Texture, height: int, width: int) -> Texture:
    """Return a texture, enlarged if necessary to cover the image."""
    rows, columns, _ = texture.shape
    zoom = max(height / rows, width / columns)
    if zoom <= 1:
        return texture
    size = (ceil(columns * zoom), ceil(rows * zoom))
    return np.asarray(Image.fromarray(texture).resize(size, Image.Resampling.BICUBIC))


def frost_from(
    textures: str | Path | Iterable[str | Path | Texture], *, name: str = "frost_from_textures"
) -> Corruption:
    """Return frost with your own textures: a folder, image files or uint8 arrays (height, width, 3).

    Files named frost1 to frost5, as in the published code, are drawn in its order, and other files in their folder are
    ignored. To use it in streams, register it: `CORRUPTIONS.register(mine.name)(mine)`.

    Args:
        textures: a folder, image files, or arrays (height, width, 3) of uint8.
        name: of the new corruption.

    >>> ice = np.full((90, 90, 3), 200, np.uint8)
    >>> mine = frost_from([ice], name="even_frost")
    >>> int(mine(np.zeros((32, 32, 3), np.uint8), 5, np.random.default_rng(0))[0, 0, 0])
    90
    >>> mine.summary
    'Look through a window covered with ice. With textures of digest e1c2b47602ef025f (1).'
    """
    images: list[tuple[str, Texture]] = []
    for entry in [textures] if isinstance(textures, str | Path) else textures:
        if isinstance(entry, str | Path):
            images += [(file.stem, read_image(file)) for file in files_in(Path(entry))]
        else:
            images.append(("array", as_image(entry)[0]))
    if not images:
        raise ValueError("frost needs at least one texture; pass a folder, files or arrays")
    named = dict(images)
    if named.keys() >= set(PUBLISHED):
        images = [(stem, named[stem]) for stem in PUBLISHED]
    chosen = [texture for _, texture in images]
    return _frost(name, lambda: chosen, f"textures of digest {_digest(chosen)} ({len(chosen)})")


def _digest(textures: Sequence[Texture]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for texture in textures:
        digest.update(f"{texture.shape}".encode())
        digest.update(np.ascontiguousarray(texture).data)
    return digest.hexdigest()


frost = CORRUPTIONS.register("frost")(_frost("frost", ice_textures, "procedural textures"))
