"""Store images as JPEG, as the published ImageNet-scale data sets do."""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions import fast


def store_as_jpeg(images: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Return images (n, height, width, 3) as read back from JPEG files with 4:2:0 chroma subsampling.

    ImageNet-C, Tiny-ImageNet-C and CCC were stored at quality 85; CIFAR-C is not stored as JPEG.

    Args:
        images: (n, height, width, 3) of uint8.
        quality: of the JPEG files, 1 to 95.

    >>> int(store_as_jpeg(np.full((2, 16, 16, 3), 128, np.uint8), 85).max())
    128
    """
    if not 1 <= quality <= 100:
        raise ValueError(f"JPEG quality must be between 1 and 100, got {quality}; the published data sets use 85")
    recode = (fast.recoded() if _same_codec() else None) or _recoded
    stored = np.empty(images.shape, np.uint8)
    for image, target in zip(images, stored, strict=True):
        target[:] = recode(image, quality)
    return stored


def _recoded(image: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    file, encoded = BytesIO(), Image.fromarray(image)
    encoded.save(file, "JPEG", quality=quality)
    # Decoded directly: opening a file would read its header twice.
    return np.asarray(Image.frombytes("RGB", encoded.size, file.getvalue(), "jpeg", "RGB", ""))


@lru_cache(maxsize=1)
def _same_codec() -> bool:
    """Return whether OpenCV gives the pixels of Pillow, which other versions of its codec might not."""
    recode = fast.recoded()
    if recode is None:
        return False
    rough = np.random.default_rng(0).integers(0, 256, (2, 45, 39, 3), np.uint8)
    samples = [rough[0], rough[1] // 16 + np.arange(39, dtype=np.uint8)[:, None] * np.uint8(6)]
    return all(np.array_equal(recode(each, q), _recoded(each, q)) for each in samples for q in (7, 25, 50, 85))
