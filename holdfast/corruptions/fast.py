"""The extra `fast`: loops compiled by numba and the JPEG codec of OpenCV, where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Recoded: TypeAlias = Callable[[NDArray[np.uint8], int], NDArray[np.uint8]]  # an image and the quality


@lru_cache(maxsize=1)
def loops() -> ModuleType | None:
    """Return the compiled loops, which give the pixels of the formulas; None without numba."""
    try:
        from holdfast.corruptions import compiled
    except ImportError:
        return None
    return compiled


@lru_cache(maxsize=1)
def recoded() -> Recoded | None:
    """Return a function that stores an image as JPEG and reads it by OpenCV; None without OpenCV 4.11 or later."""
    try:
        import cv2
    except ImportError:
        return None
    if not hasattr(cv2, "IMREAD_COLOR_RGB"):
        return None

    def recode(image: NDArray[np.uint8], quality: int) -> Any:
        file = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        return cv2.imdecode(file, cv2.IMREAD_COLOR_RGB)

    return recode
