"""Synthetic images to corrupt: smooth shapes with some texture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture(scope="session")
def make_images() -> Callable[..., NDArray[np.uint8]]:
    def make(count: int, height: int, width: int) -> NDArray[np.uint8]:
        y, x, channel, index = np.ogrid[0 : 1 : height * 1j, 0 : 1 : width * 1j, 0:3, 0:count]
        waves = 0.5 + 0.35 * np.sin(9 * x + 2 * channel + index) * np.cos(7 * y - index)
        texture = np.random.default_rng(0).normal(0, 0.1, waves.shape)
        return np.ascontiguousarray(np.moveaxis(np.clip(255 * (waves + texture), 0, 255), -1, 0).astype(np.uint8))

    return make
