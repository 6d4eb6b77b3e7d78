"""The image decoder: EXIF orientation, 16 bits and floats are read alike by data sets, corruptions and the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions import corrupt_files
from holdfast.corruptions.listing import read_image
from holdfast.data import ImageFolder
from holdfast.decode.image_files import decode_image

ORIENTATION = 0x0112
UPRIGHT = np.repeat(np.arange(24, dtype=np.uint8).reshape(4, 6, 1) * 10, 3, axis=-1)
# How a camera stores the upright image under each orientation of EXIF.
STORED: dict[int, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    1: lambda image: image,
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: np.rot90(image),
    7: lambda image: image[::-1, ::-1].swapaxes(0, 1),
    8: lambda image: np.rot90(image, 3),
}


def save(path: Path, pixels: NDArray[np.uint8], orientation: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(np.ascontiguousarray(pixels)).save(path, exif=exif)


def from_data_set(path: Path) -> NDArray[np.uint8]:
    return ImageFolder(folder=path.parent.parent, resize=None, crop=None).inputs(np.array([0]))[0]


def from_corrupted_copy(path: Path) -> NDArray[np.uint8]:
    (copy,) = corrupt_files([path], "contrast", 0, path.parent / "out")
    return np.asarray(Image.open(copy))


READERS = [from_data_set, read_image, from_corrupted_copy]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("orientation", STORED)
def test_every_orientation_comes_out_upright(
    read: Callable[[Path], NDArray[np.uint8]], orientation: int, tmp_path: Path
) -> None:
    path = tmp_path / "cats" / "0.png"
    save(path, STORED[orientation](UPRIGHT), orientation)
    assert np.array_equal(read(path), UPRIGHT)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_become_the_upper_eight(
    read: Callable[[Path], NDArray[np.uint8]], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / "cats" / f"deep.{suffix}"
    path.parent.mkdir()
    deep = np.arange(24, dtype=np.uint16).reshape(4, 6) * 2_700 + 77
    Image.fromarray(deep).save(path)
    assert np.array_equal(read(path), np.repeat((deep >> 8).astype(np.uint8)[..., None], 3, axis=-1))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_images_without_a_known_range_are_refused_by_name(
    read: Callable[[Path], NDArray[np.uint8]], kind: type, tmp_path: Path
) -> None:
    path = tmp_path / "cats" / "measured.tif"
    path.parent.mkdir()
    Image.fromarray(np.ones((4, 6), kind)).save(path)
    with pytest.raises(ValueError, match=r"measured\.tif is not a readable image .*more than 8 bits per channel"):
        read(path)


def test_a_palette_with_transparency_keeps_its_colours(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (200, 100, 50, 128)).quantize(4).save(tmp_path / "p.png")
    assert decode_image(tmp_path / "p.png").getpixel((0, 0)) == (200, 100, 50)
