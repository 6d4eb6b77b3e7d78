"""Random crops and flips of images, as CCC takes them before it corrupts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.base import Dataset

CropName = Literal["auto", "none", "resized", "shifted"]
Rule = Literal["resized", "shifted"]

SMALL = 128  # pixels: images with a shorter side below this are shifted
SCALE = (0.08, 1.0)  # share of the area that a resized crop keeps
RATIO = (3 / 4, 4 / 3)  # width over height of a resized crop
ATTEMPTS = 10
LARGEST_SHIFT = 8  # a shifted crop moves by at most 1/8 of the side: 4 of 32 pixels


@dataclass(frozen=True)
class Crop:
    """A rule that cuts a random part out of every image; the size of the result is that of the data's inputs.

    `resized` is RandomResizedCrop with its usual values (8 % to 100 % of the area, 3:4 to 4:3, bilinear), taken from
    the image as it is stored. `shifted`, for small images, moves the image by up to an eighth of its side and fills
    the border by reflection. With `flip` every second image is mirrored first, as in the official code of CCC.

    >>> image = np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3)
    >>> view = Crop("shifted").cut(image, (32, 32), np.random.default_rng(0))
    >>> view.shape, bool((view == image).all())
    ((32, 32, 3), False)
    """

    rule: Rule  # resized or shifted
    flip: bool = True  # whether every second image is mirrored

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise ValueError(f"the rule of a crop must be one of {', '.join(get_args(Rule))}, got {self.rule!r}")

    def spec(self) -> dict[str, Any]:
        """Return the rule as plain JSON."""
        return asdict(self)

    def views(
        self, data: Dataset, indices: NDArray[np.int64], rngs: Sequence[np.random.Generator]
    ) -> NDArray[np.uint8]:
        """Return one view of each image, drawn by its own generator."""
        _, height, width = data.input_spec.shape
        # Image files are cropped from the whole file; arrays have one size already.
        original = getattr(data, "original", lambda index: data.inputs(np.array([index]))[0])
        views = np.empty((len(indices), height, width, 3), np.uint8)
        for row, (index, rng) in enumerate(zip(indices, rngs, strict=True)):
            views[row] = self.cut(original(int(index)), (height, width), rng)
        return views

    def cut(self, image: NDArray[np.uint8], size: tuple[int, int], rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return one view of an image, (height, width, 3), in the given size."""
        if self.flip and rng.random() < 0.5:
            image = image[:, ::-1]
        return _resized(image, size, rng) if self.rule == "resized" else _shifted(image, size, rng)


def crop_for(data: Dataset, name: CropName = "auto") -> Crop | None:
    """Return the crop of this name for a data set; "auto" is the rule for the size of its images, "none" is None.

    Data whose classes change when mirrored say so with `flips = False`. Audio has no crops.

    Args:
        data: the data set whose images are cropped.
        name: "auto", "none", "resized" or "shifted".

    >>> from holdfast.data import Digits
    >>> crop_for(Digits())
    Crop(rule='shifted', flip=False)
    """
    if name not in get_args(CropName):
        raise ValueError(f"crop must be one of {', '.join(get_args(CropName))}, got {name!r}")
    if data.input_spec.kind != "image":
        if name in get_args(Rule):
            raise ValueError(f"{data.name} holds audio, which has no crops; leave crop out")
        return None
    if name == "none":
        return None
    if name == "auto":
        name = "shifted" if min(data.input_spec.shape[1:]) < SMALL else "resized"
    return Crop(name, flip=getattr(data, "flips", True))


def crop_from(spec: Mapping[str, Any] | None) -> Crop | None:
    """Return the crop that `Crop.spec` has written, or None."""
    return None if spec is None else Crop(**spec)


def _resized(image: NDArray[np.uint8], size: tuple[int, int], rng: np.random.Generator) -> NDArray[np.uint8]:
    top, left, height, width = _box(image.shape[0], image.shape[1], rng)
    picture = Image.fromarray(np.ascontiguousarray(image)).crop((left, top, left + width, top + height))
    return np.asarray(picture.resize((size[1], size[0]), Image.Resampling.BILINEAR))


def _box(height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return top, left, height and width of a random part; the centre, if ten draws do not fit."""
    for _ in range(ATTEMPTS):
        area = height * width * rng.uniform(*SCALE)
        ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
    w, h = width, height
    if width / height < RATIO[0]:
        h = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        w = round(height * RATIO[1])
    return (height - h) // 2, (width - w) // 2, h, w


def _shifted(image: NDArray[np.uint8], size: tuple[int, int], rng: np.random.Generator) -> NDArray[np.uint8]:
    border = [side // LARGEST_SHIFT for side in size]
    top, left = (int(rng.integers(2 * pixels + 1)) for pixels in border)
    padded = np.pad(image, [(border[0], border[0]), (border[1], border[1]), (0, 0)], mode="reflect")
    return padded[top : top + size[0], left : left + size[1]]
