"""Bodies of requests: arrays and images as a client sends them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

NPY = {"content-type": "application/x-npy"}


def npy(values: Any) -> bytes:
    """Return an array as the content of an .npy file."""
    file = io.BytesIO()
    np.save(file, np.asarray(values))
    return file.getvalue()


def png(pixels: Any, kind: str = "PNG") -> bytes:
    """Return pixels as the content of an image file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()
