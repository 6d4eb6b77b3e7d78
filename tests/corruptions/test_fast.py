"""The extra `fast` gives the pixels of the formulas in numpy and of Pillow, one by one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.corruptions import CORRUPTIONS, fast, storage
from holdfast.randomness import seeded_rng

pytest.importorskip("numba", reason="the extra `fast` is not installed")
IMAGE = CORRUPTIONS.names("image")
SHAPES = ((32, 32), (1, 1), (2, 3), (5, 70), (75, 61))


def scenes(height: int, width: int) -> NDArray[np.uint8]:
    """Return three images: noise, a gradient with grey and flat regions, and a constant."""
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    smooth = np.stack([x, np.where(x > y, x, y), np.where(y > 0.6, 0.25, x)], axis=-1)
    noise = np.random.default_rng(height).integers(0, 256, (height, width, 3))
    return np.stack([noise, 255 * smooth, np.full_like(noise, 77)]).astype(np.uint8)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a call after which the extra seems not to be installed."""

    def hide() -> None:
        monkeypatch.setattr(fast, "loops", lambda: None)
        monkeypatch.setattr(storage, "_same_codec", lambda: False)

    return hide


@pytest.mark.parametrize("name", IMAGE)
def test_pixels_are_equal(name: str, without: Callable[[], None]) -> None:
    def corrupted() -> list[NDArray[np.uint8]]:
        severities = (1, 2, 3, 5) if CORRUPTIONS[name].whole_severities else (1, 2.4, 3, 5)
        return [
            CORRUPTIONS[name].batch(images, severity, [make(index) for index in range(3)], family=family)
            for images in (scenes(*shape) for shape in SHAPES)
            for severity in severities
            for family in ("32", "224")
            for make in (lambda index: seeded_rng(0, "fast", index), np.random.RandomState)
        ]

    compiled = corrupted()
    without()
    for mine, plain in zip(compiled, corrupted(), strict=True):
        np.testing.assert_array_equal(mine, plain)


@pytest.mark.slow
def test_strided_images_are_equal(without: Callable[[], None]) -> None:
    def corrupted() -> list[NDArray[np.uint8]]:
        images = scenes(64, 64)[:, ::2, ::-2]
        return [CORRUPTIONS[name].batch(images, 3, [seeded_rng(0, name, i) for i in range(3)]) for name in IMAGE]

    compiled = corrupted()
    without()
    for mine, plain in zip(compiled, corrupted(), strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_all_colours_of_saturate_and_brightness_are_equal(without: Callable[[], None]) -> None:
    levels = np.arange(0, 256, 3, dtype=np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(1, len(levels), -1, 3)
    names = ("saturate", "brightness")
    compiled = [CORRUPTIONS[name].batch(colours, severity, []) for name in names for severity in (1, 4, 5)]
    without()
    plain = [CORRUPTIONS[name].batch(colours, severity, []) for name in names for severity in (1, 4, 5)]
    for mine, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_boxes_of_pixelate_are_those_of_pillow(without: Callable[[], None]) -> None:
    images = [scenes(length, 2 * length + 1) for length in range(1, 60)]
    compiled = [CORRUPTIONS["pixelate"].batch(each, 2.3, [], family="32") for each in images]
    without()
    for mine, each in zip(compiled, images, strict=True):
        np.testing.assert_array_equal(mine, CORRUPTIONS["pixelate"].batch(each, 2.3, [], family="32"))


@pytest.mark.parametrize("quality", [1, 7, 25, 50, 85, 100])
def test_jpeg_of_opencv_is_that_of_pillow(quality: int, without: Callable[[], None]) -> None:
    pytest.importorskip("cv2")
    assert storage._same_codec()  # noqa: SLF001
    images = [scenes(*shape) for shape in (*SHAPES, (224, 224))]
    stored = [storage.store_as_jpeg(each, quality) for each in images]
    without()
    for mine, each in zip(stored, images, strict=True):
        np.testing.assert_array_equal(mine, storage.store_as_jpeg(each, quality))


def test_another_codec_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def recode(image: NDArray[np.uint8], _quality: int) -> NDArray[np.uint8]:
        return 255 - image

    monkeypatch.setattr(fast, "recoded", lambda: recode)
    storage._same_codec.cache_clear()  # noqa: SLF001
    try:
        grey = np.full((1, 16, 16, 3), 128, np.uint8)
        assert storage.store_as_jpeg(grey, 85).max() == 128
        assert not storage._same_codec()  # noqa: SLF001
    finally:
        storage._same_codec.cache_clear()  # noqa: SLF001


def test_everything_works_without_the_extra() -> None:
    code = """
import sys
sys.modules["numba"] = sys.modules["cv2"] = None
import numpy as np
from holdfast.corruptions import CORRUPTIONS, fast
assert fast.loops() is None
assert fast.recoded() is None
image = np.full((32, 32, 3), 90, np.uint8)
for name in CORRUPTIONS.names("image"):
    assert CORRUPTIONS[name](image, 3, np.random.default_rng(0)).shape == image.shape, name
"""
    subprocess.run([sys.executable, "-c", code], check=True)
