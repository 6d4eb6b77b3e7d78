"""Images in class folders: files, order, size and cache."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from holdfast.data import ImageFolder
from holdfast.streams import continual

FILES = ("n01/c.png", "n02/a.PNG", "n02/b.png", "n10/deeper/x.png", "n10/y.png", "n10/z.png")


def as_stored(folder: Path, **options: int) -> ImageFolder:
    return ImageFolder(folder=str(folder), resize=None, crop=None, **options)


def test_classes_are_the_sorted_folders(class_folders: Path) -> None:
    (class_folders / "n02" / "notes.txt").write_text("not a picture")
    (class_folders / "n02" / "._a.png").write_text("what a Mac leaves behind")
    (class_folders / ".cache").mkdir()
    data = as_stored(class_folders)
    assert data.class_names == ("n01", "n02", "n10")
    assert data.files == FILES
    assert data.labels.tolist() == [0, 1, 1, 2, 2, 2]
    assert data.input_spec.shape == (3, 40, 36)


def test_an_empty_class_keeps_its_number(class_folders: Path) -> None:
    (class_folders / "n015").mkdir()
    data = as_stored(class_folders)
    assert data.class_names == ("n01", "n015", "n02", "n10")
    assert data.labels.tolist() == [0, 2, 2, 3, 3, 3]


def test_images_come_by_index(class_folders: Path) -> None:
    inputs = as_stored(class_folders).inputs(np.array([4, 0, 4]))
    for row, file in enumerate(("n10/y.png", "n01/c.png", "n10/y.png")):
        assert np.array_equal(inputs[row], np.asarray(Image.open(class_folders / file)))
    assert as_stored(class_folders).inputs(np.array([], np.int64)).shape == (0, 40, 36, 3)


@pytest.mark.parametrize("stored", ["L", "RGBA", "P", "CMYK"])
def test_every_mode_becomes_rgb(tmp_path: Path, stored: str) -> None:
    (tmp_path / "cat").mkdir()
    suffix = "jpg" if stored == "CMYK" else "png"
    Image.new("RGB", (32, 32), (204, 204, 204)).convert(stored).save(tmp_path / "cat" / f"grey.{suffix}")
    inputs = as_stored(tmp_path).inputs(np.array([0]))
    assert inputs.shape == (1, 32, 32, 3)
    assert np.abs(inputs.astype(int) - 204).max() <= 1


# Width, height, and the origin of a 224 crop after resizing the shorter side to 256, as in torchvision.
SIZES = [
    (500, 375, 341, 256, 58, 16),
    (375, 500, 256, 341, 16, 58),
    (640, 427, 383, 256, 80, 16),
    (300, 402, 256, 343, 16, 60),
    (99, 99, 256, 256, 16, 16),
]


@pytest.mark.parametrize(("width", "height", "wide", "high", "left", "top"), SIZES)
def test_resize_and_crop_are_those_of_published_evaluations(
    tmp_path: Path, width: int, height: int, wide: int, high: int, left: int, top: int
) -> None:
    (tmp_path / "n01").mkdir()
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([127 + 120 * np.sin(x / 9), 127 + 120 * np.cos(y / 7), (x + y) % 256], axis=-1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "n01" / "0.png")
    Image.new("RGB", (8, 9)).save(tmp_path / "n01" / "1.png")  # of another size, so that a rule is needed
    shown = ImageFolder(folder=tmp_path).inputs(np.array([0]))[0]
    planes = torch.from_numpy(pixels).permute(2, 0, 1)[None].float()
    resized = F.interpolate(planes, (high, wide), mode="bilinear", antialias=True)[0].permute(1, 2, 0).numpy()
    assert np.abs(shown - resized[top : top + 224, left : left + 224]).max() <= 1  # half a level for each direction


def test_images_of_different_sizes_need_a_crop_that_fits(class_folders: Path) -> None:
    Image.new("RGB", (36, 41)).save(class_folders / "n10" / "z.png")
    data = as_stored(class_folders)
    with pytest.raises(ValueError, match=r"n10/z\.png has 36×41 pixels instead of 36×40; pass a crop"):
        data.inputs(np.arange(6))
    assert ImageFolder(folder=class_folders, resize=None, crop=32).inputs(np.arange(6)).shape == (6, 32, 32, 3)
    with pytest.raises(ValueError, match=r"n01/c\.png has 30×32 pixels instead of 32×32"):
        ImageFolder(folder=class_folders, resize=30, crop=32)
    with pytest.raises(ValueError, match="crop of data set 'image_folder' must be a whole number from 1"):
        ImageFolder(folder=class_folders, crop=0)


def test_images_of_one_size_are_taken_as_they_are(class_folders: Path) -> None:
    plain = ImageFolder(folder=class_folders)
    assert (plain.resize, plain.crop) == (None, None)
    assert np.array_equal(plain.inputs(np.arange(5)), as_stored(class_folders).inputs(np.arange(5)))
    assert plain.digest == as_stored(class_folders).digest
    Image.new("RGB", (36, 41)).save(class_folders / "n10" / "z.png")
    several = ImageFolder(folder=class_folders)
    assert several.input_spec.shape == (3, 224, 224)
    assert several.digest == ImageFolder(folder=class_folders, resize=256, crop=224).digest


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp", "tif", "ppm"])
@pytest.mark.parametrize("share", [0, 0.02, 0.5])
@pytest.mark.filterwarnings("ignore:Truncated File Read")
def test_an_unreadable_file_is_named(class_folders: Path, suffix: str, share: float) -> None:
    path = class_folders / "n10" / f"broken.{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (40, 36, 3), np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    data = as_stored(class_folders)
    with pytest.raises(ValueError, match=rf"n10/broken\.{suffix} is not a readable image .*; replace or remove it"):
        data.inputs(np.arange(7))


def test_a_bounded_number_of_bytes_is_kept(class_folders: Path) -> None:
    data = as_stored(class_folders, cache_bytes=2 * 40 * 36 * 3 + 100)
    before = data.inputs(np.array([1, 2]))
    for name in FILES[1:3]:
        (class_folders / name).unlink()
    assert np.array_equal(data.inputs(np.array([2, 1])), before[::-1])  # both fit
    data.inputs(np.array([0]))  # evicts the least recently used one
    assert np.array_equal(data.inputs(np.array([1]))[0], before[0])
    with pytest.raises(ValueError, match=r"n02/b\.png is not a readable image .*No such file"):
        data.inputs(np.array([2]))


def test_the_digest_follows_the_data_and_not_the_place(class_folders: Path, tmp_path: Path) -> None:
    digest = as_stored(class_folders).digest
    shutil.copytree(class_folders, tmp_path / "copy")
    streams = [continual(as_stored(folder), corruptions=["clean"]) for folder in (class_folders, tmp_path / "copy")]
    assert streams[0].fingerprint == streams[1].fingerprint
    changes: dict[str, Callable[[Path], object]] = {
        "file renamed": lambda folder: (folder / "n01" / "c.png").rename(folder / "n01" / "d.png"),
        "class renamed": lambda folder: (folder / "n01").rename(folder / "n03"),
        "class added": lambda folder: (folder / "n04").mkdir(),
        "file removed": lambda folder: (folder / "n10" / "y.png").unlink(),
        "one byte": lambda folder: flip_byte(folder / "n10" / "z.png", -30),
    }
    digests = {digest, ImageFolder(folder=class_folders, resize=40, crop=36).digest}
    for number, (name, change) in enumerate(changes.items()):
        shutil.copytree(class_folders, tmp_path / name)
        change(tmp_path / name)
        digests.add(as_stored(tmp_path / name).digest)
        assert len(digests) == number + 3, name


def flip_byte(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_streams_render_them(class_folders: Path) -> None:
    data = ImageFolder(folder=class_folders, resize=36, crop=32, cache_bytes=0)
    stream = continual(data, corruptions=["clean", "contrast"], severity=3)
    assert (stream.num_classes, stream.length) == (3, 12)
    batches = list(stream.starting_at(0, batch_size=4))
    assert [tuple(batch.inputs.shape) for batch in batches] == [(4, 3, 32, 32), (2, 3, 32, 32)] * 2
    ahead = stream.starting_at(0, batch_size=4, workers=2)
    assert all(torch.equal(one.inputs, other.inputs) for one, other in zip(batches, ahead, strict=True))
    travelled = pickle.loads(pickle.dumps(stream))
    assert travelled.fingerprint == stream.fingerprint
    assert torch.equal(travelled.first(12), stream.first(12))


def test_what_is_not_there_is_named_with_the_remedy(tmp_path: Path, class_folders: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder .*absent; pass a folder"):
        ImageFolder(folder=tmp_path / "absent")
    with pytest.raises(ValueError, match=r"n01 has no class folders with images; make one"):
        ImageFolder(folder=class_folders / "n01")
