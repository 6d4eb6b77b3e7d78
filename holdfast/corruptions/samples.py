"""Convert arrays, Pillow images and tensors to uint8 images and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.decode.image_files import as_rgb

Sample = TypeVar("Sample")


def as_image(sample: Sample) -> tuple[NDArray[np.uint8], Callable[[NDArray[np.uint8]], Sample]]:
    """Return a sample as uint8 (height, width, 3), and a function that converts such an image to the sample's type.

    >>> image, back = as_image(np.zeros((4, 6), np.uint8))
    >>> image.shape, back(image).shape
    ((4, 6, 3), (4, 6, 3))
    """
    if isinstance(sample, Image.Image):
        return np.asarray(as_rgb(sample)), cast("Callable[[NDArray[np.uint8]], Sample]", Image.fromarray)
    if isinstance(sample, np.ndarray):
        return _from_array(sample), cast("Callable[[NDArray[np.uint8]], Sample]", lambda image: image)
    if hasattr(sample, "new_tensor"):  # a torch tensor, recognised without importing torch, which is slow
        return _from_tensor(sample)
    raise TypeError(f"cannot corrupt a {type(sample).__name__}; pass an array, a Pillow image or a tensor")


def _from_array(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8 and array.ndim == 2:
        array = np.repeat(array[..., None], 3, axis=-1)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[-1] != 3:
        raise ValueError(f"the array is {array.dtype} {array.shape}; pass uint8 (height, width, 3) or (height, width)")
    return array


def _from_tensor(tensor: Any) -> tuple[NDArray[np.uint8], Callable[[NDArray[np.uint8]], Any]]:
    if tensor.ndim != 3 or len(tensor) != 3:
        raise ValueError(f"the tensor has shape {tuple(tensor.shape)}; pass (3, height, width), one image at a time")
    if not tensor.is_floating_point():
        image = _from_array(tensor.cpu().numpy().transpose(1, 2, 0))
        return image, lambda image: tensor.new_tensor(image.transpose(2, 0, 1))
    values = tensor.detach().double().cpu().numpy().transpose(1, 2, 0)
    if not (values.min() >= 0 and values.max() <= 1):
        raise ValueError("the tensor has values outside [0, 1]; corrupt images before they are normalised")
    return np.rint(values * 255).astype(np.uint8), lambda image: tensor.new_tensor(image.transpose(2, 0, 1) / 255)
