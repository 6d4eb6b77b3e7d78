"""Small data sets in their published layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image


@pytest.fixture(scope="session")
def make_images() -> Callable[..., NDArray[np.uint8]]:
    def make(count: int, height: int = 32, width: int = 32) -> NDArray[np.uint8]:
        return np.random.default_rng(count).integers(0, 256, (count, height, width, 3), np.uint8)

    return make


@pytest.fixture
def class_folders(tmp_path: Path, make_images: Callable[..., NDArray[np.uint8]]) -> Path:
    """Three classes with two, one and three images of 40×36 pixels, stored without loss."""
    root = tmp_path / "val"
    names = ["n02/b.png", "n02/a.PNG", "n01/c.png", "n10/z.png", "n10/deeper/x.png", "n10/y.png"]
    for name, pixels in zip(names, make_images(6, 40, 36), strict=True):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(root / name, "png")
    return root
