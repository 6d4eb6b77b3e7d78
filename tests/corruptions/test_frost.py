"""Frost with procedural and with custom textures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from holdfast.corruptions import CORRUPTIONS, frost_from
from holdfast.corruptions.image.texture import ice_textures
from holdfast.randomness import seeded_rng


@pytest.fixture
def folder(tmp_path):
    """Six even textures, the sixth of which the published code never draws."""
    for number in (5, 3, 1, 2, 4, 6):
        Image.new("RGB", (120, 110), (40 * number, 0, 0)).save(tmp_path / f"frost{number}.png")
    return tmp_path


def drawn(corruption, rng, picture=None):
    """Return the texture that a draw chose, counted from 1."""
    picture = np.zeros((20, 20, 3), np.uint8) if picture is None else picture
    choice, *_ = corruption.draw(rng, picture, *corruption.quantities(5, "224"))
    return int(choice) + 1


def roughness(texture):
    grey = texture @ np.array([0.299, 0.587, 0.114])
    return (np.sqrt(np.mean(np.diff(grey, axis=0) ** 2)) + np.sqrt(np.mean(np.diff(grey, axis=1) ** 2))) / 2


def test_ice_has_the_colours_and_the_grain_of_photographs():
    teal, bright, again, grey, coarse = ice_textures()
    assert again is bright
    assert ice_textures()[0] is teal  # made once
    # Roughness of the photographs, at full size and at a fifth of it.
    for texture, full, fifth in ((teal, 10, 14.1), (bright, 11.3, 19.6), (grey, 18.4, 29.7), (coarse, 24.7, 39.5)):
        assert texture.shape == (448, 640, 3)
        assert roughness(texture) == pytest.approx(full, rel=0.16)
        assert roughness(texture[2::5, 2::5]) == pytest.approx(fifth, rel=0.22)
    assert teal.mean(axis=(0, 1)) == pytest.approx([78, 149, 166], abs=1)
    assert teal.std(axis=(0, 1)) == pytest.approx([27, 16.5, 15], abs=1)
    assert bright.mean() > grey.mean() > coarse.mean()


def test_the_source_of_the_textures_is_part_of_the_description(folder):
    assert CORRUPTIONS["frost"].source == "procedural textures"
    assert CORRUPTIONS["frost"].summary.endswith("With procedural textures.")
    ours, theirs = frost_from([np.zeros((40, 40, 3), np.uint8)]), frost_from(folder)
    assert ours.source in ours.summary
    assert ours.source != theirs.source
    assert theirs.source == frost_from(str(folder)).source


def test_published_files_are_drawn_as_published(folder):
    mine = frost_from(folder, name="photographs")
    for seed in range(20):
        expected = np.random.RandomState(seed)
        choice, row, column = expected.randint(5), expected.randint(0, 110 - 20), expected.randint(0, 120 - 20)
        drawn = mine.draw(np.random.RandomState(seed), np.zeros((20, 20, 3), np.uint8), 1, 1, 1)
        assert [int(value) for value in drawn] == [choice, row, column]
    black = np.zeros((20, 20, 3), np.uint8)
    picture = mine(black, 5, np.random.RandomState(0), family="224")
    assert picture[0, 0].tolist() == [int(0.75 * 40 * (np.random.RandomState(0).randint(5) + 1)), 0, 0]


def test_other_files_and_arrays_are_all_drawn(folder):
    (folder / "frost1.png").rename(folder / "ice.png")
    for mine in (frost_from(folder), frost_from([folder / "frost2.png"] * 5 + [np.zeros((50, 50), np.uint8)])):
        assert {drawn(mine, seeded_rng(0, "frost", index)) for index in range(99)} == {1, 2, 3, 4, 5, 6}


def test_textures_are_cropped_at_the_size_of_the_family():
    y, x = np.indices((100, 200), np.uint8)
    mine = frost_from([np.stack([y, x, x], axis=-1)])
    black = np.zeros((12, 12, 3), np.uint8)

    def quantities(family):
        return 0, 1, mine.quantities(5, family)[2]

    for family, pixels in (("224", 1), ("32", 5), ("64", 10 / 3)):
        fields = [np.array([field]) for field in mine.draw(seeded_rng(0, "x"), black, *quantities(family))]
        crop = mine.apply(black[None], *fields, *quantities(family))[0].astype(float)
        assert np.diff(crop[:, 0, 0]).mean() == pytest.approx(pixels, abs=0.1)
        assert np.diff(crop[0, :, 1]).mean() == pytest.approx(pixels, abs=0.1)


def test_a_picture_larger_than_the_textures_is_covered():
    mine = frost_from([np.full((30, 90, 3), 200, np.uint8)])
    covered = mine(np.zeros((100, 40, 3), np.uint8), 5, seeded_rng(0, "x"))
    assert covered.min() == covered.max() == 90
    large = np.zeros((1, 500, 700, 3), np.uint8)
    assert CORRUPTIONS["frost"].batch(large, 3, [seeded_rng(0, "x")]).std() > 5


def test_frost_with_custom_textures_can_be_registered(folder):
    mine = frost_from(folder, name="my_frost")
    CORRUPTIONS.register(mine.name)(mine)
    try:
        assert CORRUPTIONS["my_frost"] is mine
        assert CORRUPTIONS.names("image")[-1] == "my_frost"
    finally:
        CORRUPTIONS.discard("my_frost")


def test_missing_textures_say_so(tmp_path):
    with pytest.raises(ValueError, match="at least one texture"):
        frost_from([])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        frost_from(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no image files"):
        frost_from(tmp_path)
    with pytest.raises(ValueError, match="pass uint8"):
        frost_from([np.zeros((8, 8, 3))])
