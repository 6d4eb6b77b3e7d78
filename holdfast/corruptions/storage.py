"""Store images as JPEG, as the published ImageNet-scale data sets do."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def store_as_jpeg(images: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Return images (n, height, width, 3) as read back from JPEG files with 4:2:0 chroma subsampling.

    ImageNet-C, Tiny-ImageNet-C and CCC were stored at quality 85; CIFAR-C is not stored as JPEG.

    >>> int(store_as_jpeg(np.full((2, 16, 16, 3), 128, np.uint8), 85).max())
    128
    """
    if not 1 <= quality <= 100:
        raise ValueError(f"JPEG quality must be between 1 and 100, got {quality}; the published data sets use 85")
    stored = np.empty(images.shape, np.uint8)
    for image, target in zip(images, stored, strict=True):
        file, encoded = BytesIO(), Image.fromarray(image)
        encoded.save(file, "JPEG", quality=quality)
        # Decoded directly: opening a file would read its header twice.
        target[:] = np.asarray(Image.frombytes("RGB", encoded.size, file.getvalue(), "jpeg", "RGB", ""))
    return stored
