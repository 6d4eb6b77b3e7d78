"""Random crops: their rules, their draws, and that a stream crops before it corrupts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.data import Crop, Digits, ImageFolder, InMemoryAudio, InMemoryImages, crop_for
from holdfast.data.crops import Rule, _box
from holdfast.randomness import seeded_rng
from holdfast.records import Picks
from holdfast.streams import Calibration, Rendering, Transition, ccc, export_shards, read_shards

RAMP = np.arange(32 * 32 * 3, dtype=np.uint32).reshape(32, 32, 3).astype(np.uint8)
PATH = Transition("contrast", "brightness", ((1, 0), (0, 0)), (30.0, 50.0))


def large(tmp_path: Path) -> ImageFolder:
    """Two images of 300×200 pixels, of which the centre is black and the rest white."""
    for name in ("a/x.png", "b/y.png"):
        image = np.full((200, 300, 3), 255, np.uint8)
        image[40:160, 90:210] = 0
        (tmp_path / name).parent.mkdir(parents=True)
        Image.fromarray(image).save(tmp_path / name)
    return ImageFolder(folder=tmp_path, resize=160, crop=128)


def test_small_images_are_shifted_and_large_ones_cut(tmp_path: Path) -> None:
    small = InMemoryImages(RAMP[None], np.zeros(1, np.int64))
    assert crop_for(small) == Crop("shifted", flip=True)
    assert crop_for(Digits()) == Crop("shifted", flip=False)
    assert crop_for(large(tmp_path)) == Crop("resized", flip=True)
    assert crop_for(small, "none") is None
    audio = InMemoryAudio(np.zeros((1, 100), np.float32), np.zeros(1, np.int64), sample_rate=8000)
    assert crop_for(audio) is None
    with pytest.raises(ValueError, match="holds audio, which has no crops"):
        crop_for(audio, "shifted")
    with pytest.raises(ValueError, match="crop must be one of auto, none, resized, shifted, got 'centre'"):
        crop_for(small, "centre")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["resized", "shifted"])
def test_a_view_is_as_high_and_as_wide_as_the_inputs(rule: Rule) -> None:
    image = np.zeros((48, 96, 3), np.uint8)
    image[:, 48:] = 255
    view = Crop(rule, flip=False).cut(image, (48, 96), seeded_rng(0, "crop", 0))
    assert view.shape == (48, 96, 3)
    assert (view == view[:1]).all()  # the edge is upright, and still there
    assert set(np.unique(view)) >= {0, 255}


def test_a_shift_moves_by_at_most_an_eighth_and_every_second_image_is_mirrored() -> None:
    views = [Crop("shifted").cut(RAMP, (32, 32), seeded_rng(0, "crop", index)) for index in range(200)]
    centres = {(int(view[16, 16, 0]), int(view[16, 16, 1])) for view in views}
    possible = {
        (int(image[16 + down, 16 + right, 0]), int(image[16 + down, 16 + right, 1]))
        for image in (RAMP, RAMP[:, ::-1])
        for down in range(-4, 5)
        for right in range(-4, 5)
    }
    assert centres <= possible
    assert len(centres) > 50
    mirrored = np.mean([view[16, 17, 0] < view[16, 16, 0] for view in views])
    assert mirrored == pytest.approx(0.5, abs=0.12)
    unflipped = [Crop("shifted", flip=False).cut(RAMP, (32, 32), seeded_rng(0, "crop", index)) for index in range(50)]
    assert {int(view[16, 17, 0]) - int(view[16, 16, 0]) for view in unflipped} <= {3, 3 - 256}


def test_the_parts_have_the_published_areas_and_ratios() -> None:
    boxes = np.array([_box(375, 500, seeded_rng(0, "box", index)) for index in range(2000)])
    top, left, height, width = boxes.T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 375).all()
    assert (left + width <= 500).all()
    area, ratio = height * width / (375 * 500), width / height
    assert area.min() == pytest.approx(0.08, abs=0.005)
    assert area.max() > 0.95
    assert 0.74 < ratio.min() < ratio.max() < 1.35
    # Uniform in the area as long as every part fits.
    assert np.median(area[area < 0.5]) == pytest.approx(0.29, abs=0.02)
    assert _box(10, 100, seeded_rng(0, "box", 1)) == (0, 43, 10, 13)  # ten draws do not fit: the centre at 4:3


def test_files_are_cut_from_the_whole_image(tmp_path: Path) -> None:
    data = large(tmp_path)
    assert data.inputs(np.zeros(1, np.int64))[0, 0, 0, 0] == 255
    assert data.original(0).shape == (200, 300, 3)
    rngs = [seeded_rng(0, "crop", index) for index in range(60)]
    views = Crop("resized").views(data, np.arange(60) % 2, rngs)
    assert views.shape == (60, 128, 128, 3)
    # A centre crop is 34 to 40 % black; random parts hold anything from none to all.
    dark = (views[..., 0] < 128).mean((1, 2))
    assert dark.min() < 0.1
    assert dark.max() > 0.8


def test_a_stream_crops_anew_at_every_visit_and_the_same_at_every_position() -> None:
    data = InMemoryImages(np.stack([RAMP, RAMP.transpose(1, 0, 2)]), np.array([0, 1]))
    stream = ccc(data, calibration=Calibration((PATH,), 40.0, crop=Crop("shifted")), images_per_step=40)
    whole = stream.render(40, 80).inputs
    assert len({view.numpy().tobytes() for view in whole}) > 30  # of two images, uncorrupted
    assert np.array_equal(stream.render(50, 60).inputs, whole[10:20])
    other = ccc(data, calibration=Calibration((PATH,), 40.0), images_per_step=40)
    assert other.fingerprint != stream.fingerprint
    assert len({view.numpy().tobytes() for view in other.render(40, 80).inputs}) == 2


def test_the_crop_comes_before_the_corruption() -> None:
    data = InMemoryImages(RAMP[None], np.zeros(1, np.int64))
    stream = ccc(data, calibration=Calibration((PATH,), 40.0, crop=Crop("shifted")), images_per_step=4)
    picks = stream.plan.picks(0, 4)
    views = stream.rendering.load(data, picks, 0)
    rendered = stream.rendering.render(views, picks, stream.plan.domains, 0, data.input_spec)
    assert np.array_equal(stream.render(0, 4).inputs.mul(255).round().byte().permute(0, 2, 3, 1), rendered)
    assert not np.array_equal(views, rendered)


def test_draws_keyed_by_sample_repeat_the_crop() -> None:
    data = InMemoryImages(RAMP[None], np.zeros(1, np.int64))
    picks = Picks(np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros((3, 0)))
    same = Rendering(crop=Crop("shifted")).load(data, picks, 5)
    assert (same == same[0]).all()
    anew = Rendering(crop=Crop("shifted"), draws="position").load(data, picks, 5)
    assert not (anew == anew[0]).all()


def test_shards_hold_the_cropped_images(tmp_path: Path) -> None:
    data = InMemoryImages(np.stack([RAMP, 255 - RAMP]), np.array([0, 1]))
    calibration = Calibration((PATH,), 40.0, crop=Crop("shifted"), storage_jpeg_quality=85)
    stream = ccc(data, calibration=calibration, images_per_step=4)
    stored = np.stack([sample.image for sample in read_shards(export_shards(stream, tmp_path))])
    assert np.array_equal(stored, stream.render(0, 8).inputs.mul(255).round().byte().permute(0, 2, 3, 1))
