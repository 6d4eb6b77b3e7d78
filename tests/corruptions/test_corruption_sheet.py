"""The contact sheet, and corrupted copies of files."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from holdfast.corruptions import CORRUPTIONS, contact_sheet, corrupt_files
from holdfast.corruptions import sheet as sheet_module


@pytest.fixture
def folder(tmp_path, make_images):
    images = make_images(3, 20, 24)
    for path, image in zip(("a.png", "cats/b.bmp", "cats/deep/c.PNG"), images, strict=True):
        target = tmp_path / "in" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(target)
    (tmp_path / "in" / "notes.txt").write_text("not a picture")
    return tmp_path / "in"


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


def test_sheet_shows_every_cell_enlarged_and_labelled(make_images):
    image = make_images(1, 32, 32)[0]
    names = CORRUPTIONS.names("image")
    sheet = contact_sheet(image, names, [0, 1, 5])
    assert np.array_equal(np.asarray(sheet), np.asarray(contact_sheet(image, names, [0, 1, 5])))
    large = image.repeat(4, axis=0).repeat(4, axis=1)
    array = np.asarray(sheet)
    left = sheet.width - 3 * (128 + sheet_module.GAP)
    top = sheet_module.FONT_SIZE + 2 * sheet_module.GAP
    assert np.array_equal(array[top : top + 128, left : left + 128], large)
    for row in range(len(names)):  # a label beside each row
        assert array[top + row * 136 : top + row * 136 + 128, :left].min() < 64
    for column in range(3):  # and above each column
        assert array[:top, left + column * 136 : left + column * 136 + 128].min() < 64


@pytest.mark.parametrize(("height", "width"), [(200, 100), (900, 500), (3, 5)])
def test_sheet_takes_any_size(height, width, make_images):
    sheet = contact_sheet(Image.fromarray(make_images(1, height, width)[0]), ["contrast", "jpeg"], [5], family="224")
    assert sheet.width < 500
    assert 200 < sheet.height < 600


def test_empty_sheet_is_refused(make_images):
    with pytest.raises(ValueError, match="at least one corruption"):
        contact_sheet(make_images(1, 8, 8)[0], [], [1])


def test_folder_keeps_its_tree_and_draws_by_path(folder, tmp_path):
    written = corrupt_files([folder], "gaussian_noise", 5, tmp_path / "out", seed=3)
    assert [path.relative_to(tmp_path / "out").as_posix() for path in written] == [
        "a.png",
        "cats/b.png",
        "cats/deep/c.png",
    ]
    assert not list((tmp_path / "out").rglob("*.partial"))
    (folder / "a.png").unlink()  # the others do not notice
    fewer = corrupt_files([folder], "gaussian_noise", 5, tmp_path / "fewer", seed=3)
    assert np.array_equal(pixels(fewer[0]), pixels(written[1]))
    other = corrupt_files([folder], "gaussian_noise", 5, tmp_path / "other", seed=4)
    assert not np.array_equal(pixels(other[0]), pixels(written[1]))


def test_single_files_are_corrupted_without_loss(folder, tmp_path):
    (written,) = corrupt_files([str(folder / "a.png")], "contrast", 2, tmp_path / "out", family="224")
    expected = CORRUPTIONS["contrast"](pixels(folder / "a.png"), 2, np.random.default_rng(0), family="224")
    assert np.array_equal(pixels(written), expected)


def test_camera_orientation_survives(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    Image.new("RGB", (10, 30)).save(tmp_path / "turned.jpg", exif=exif)
    (written,) = corrupt_files([tmp_path / "turned.jpg"], "contrast", 1, tmp_path / "out")
    assert pixels(written).shape == (10, 30, 3)


def test_unreadable_files_are_named_after_the_others_are_written(folder, tmp_path):
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    (folder / "torn.png").write_bytes((folder / "a.png").read_bytes()[:200])
    Image.new("F", (8, 8)).save(folder / "float.tif")
    with pytest.raises(ValueError, match=r"3 of 6 files could not be read.*broken\.png.*float\.tif.*torn\.png"):
        corrupt_files([folder], "contrast", 2, tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("*.png"))) == 3


def test_inputs_are_never_overwritten(folder, tmp_path):
    before = (folder / "a.png").read_bytes()
    with pytest.raises(ValueError, match="would be overwritten"):
        corrupt_files([folder / "a.png"], "contrast", 2, folder)
    with pytest.raises(ValueError, match="is inside the input folder"):
        corrupt_files([folder], "contrast", 2, folder / "out")
    (folder / "a.bmp").write_bytes(before)
    with pytest.raises(ValueError, match="would both become"):
        corrupt_files([folder], "contrast", 2, tmp_path / "out")
    assert (folder / "a.png").read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_missing_and_empty_inputs_say_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        corrupt_files([tmp_path / "nowhere"], "contrast", 2, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no image files"):
        corrupt_files([tmp_path / "empty"], "contrast", 2, tmp_path / "out")


def test_nothing_half_written_remains(folder, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        corrupt_files([folder], "contrast", 2, tmp_path / "out")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
