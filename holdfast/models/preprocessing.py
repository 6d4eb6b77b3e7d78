"""How a zoo prepares its inputs: the frozen record that comes with every loaded network."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from holdfast.decode.image_files import resize_shorter_side


@dataclass(frozen=True)
class Preprocessing:
    """What happens to an input before the network: resize and crop outside it, mean and standard deviation inside.

    >>> Preprocessing(crop=(4, 4), resize=8).image(Image.new("RGB", (20, 10), "white")).shape
    torch.Size([3, 4, 4])
    """

    mean: tuple[float, ...] = ()  # of each channel, for inputs in [0, 1]; empty: none is subtracted
    std: tuple[float, ...] = ()  # of each channel, for inputs in [0, 1]; empty: inputs are not scaled
    crop: tuple[int, int] | None = None  # height and width of the centre crop
    resize: int | None = None  # pixels of the shorter side before the crop
    interpolation: str = "bilinear"  # of the resize, as Pillow calls it
    sample_rate: int | None = None  # of audio, in Hz

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(map(math.isfinite, (*self.mean, *self.std))) or 0 in self.std:
            raise ValueError(
                f"mean and std must be finite numbers, one for each channel, and no std 0, got mean={list(self.mean)} "
                f"and std={list(self.std)}"
            )
        if min((*(self.crop or ()), *(() if self.resize is None else (self.resize,))), default=1) < 1:
            raise ValueError(f"images must have at least 1 pixel, got crop={self.crop} and resize={self.resize}")

    def image(self, picture: Image.Image) -> Tensor:
        """Return an image as the network takes it: resized, cropped, (3, height, width) in [0, 1]."""
        picture = picture.convert("RGB")
        if self.resize is not None:
            picture = resize_shorter_side(picture, self.resize, self.interpolation)
        if self.crop is not None:
            height, width = self.crop
            left, top = round((picture.width - width) / 2), round((picture.height - height) / 2)
            picture = picture.crop((left, top, left + width, top + height))
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that say something, as JSON can hold them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value not in (None, ())
        }


def preprocessing_of(module: nn.Module) -> Preprocessing | None:
    """Return the preprocessing that a network was loaded with, or None for any other network.

    >>> preprocessing_of(nn.Identity())
    """
    stated = (getattr(part, "preprocessing", None) for part in module.modules())
    return next((preprocessing for preprocessing in stated if isinstance(preprocessing, Preprocessing)), None)
