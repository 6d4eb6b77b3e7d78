"""Properties of all image corruptions, tested over the registry, and of single ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from holdfast.corruptions import CORRUPTIONS, FAMILIES, Corruption, corruption, family_of, store_as_jpeg
from holdfast.corruptions.image import glass
from holdfast.corruptions.image.motion import trail
from holdfast.corruptions.image.spatter import distance_to, edges, equalise
from holdfast.corruptions.image.weather import plasma
from holdfast.corruptions.image.zoom import zoom_taps
from holdfast.randomness import seeded_rng
from holdfast.registry import UnknownNameError

NAMES = CORRUPTIONS.names("image")


def rngs(count, seed=0):
    return [seeded_rng(seed, "tests", index) for index in range(count)]


def steps(name):
    return [1, 3, 5] if CORRUPTIONS[name].whole_severities else [0.75, 2.5, 5]


@pytest.mark.parametrize("name", NAMES)
def test_severity_zero_leaves_everything_as_it_is(name, make_images):
    images = make_images(2, 32, 40)
    assert np.array_equal(CORRUPTIONS[name].batch(images, 0, rngs(2)), images)
    assert CORRUPTIONS[name].batch(images, 0, rngs(2)) is not images
    assert np.array_equal(CORRUPTIONS[name](images[0], 0, rngs(1)[0]), images[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 45), (64, 80), (131, 100)])
def test_batch_equals_one_by_one_and_keeps_shape_and_inputs(name, height, width, make_images):
    count = 12 if height == 32 else 3  # more images than fit into one chunk
    images = make_images(count, height, width)
    images.flags.writeable = False
    for severity in steps(name):
        together = CORRUPTIONS[name].batch(images, severity, rngs(count))
        apart = [CORRUPTIONS[name](image, severity, rng) for image, rng in zip(images, rngs(count), strict=True)]
        assert together.dtype == np.uint8
        assert together.shape == images.shape
        assert np.array_equal(together, np.stack(apart))


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(NAMES), height=st.integers(1, 70), width=st.integers(1, 70), step=st.integers(1, 20))
def test_any_size_at_any_quarter_severity(name, height, width, step):
    chosen = CORRUPTIONS[name]
    severity = -(-step // 4) if chosen.whole_severities else step / 4
    images = np.random.default_rng(step).integers(0, 256, (2, height, width, 3), np.uint8)
    assert chosen.batch(images, severity, rngs(2)).shape == images.shape


@pytest.mark.parametrize("name", [name for name in NAMES if not CORRUPTIONS[name].whole_severities])
@pytest.mark.parametrize("family", FAMILIES)
def test_fine_severities_begin_at_nothing_and_have_no_gaps(name, family, make_images):
    images = make_images(1, 24, 28)

    def change(severity):
        return np.abs(CORRUPTIONS[name].batch(images, severity, rngs(1), family=family).astype(float) - images).mean()

    for severity in np.arange(0.3, 5, 0.37):
        assert np.isfinite(change(severity))
    assert change(0.01) < 0.95 * change(1)


@pytest.mark.parametrize("name", NAMES)
def test_the_generator_alone_decides(name, make_images):
    images = make_images(2, 32, 32)
    images[1] = images[0]
    first, second = CORRUPTIONS[name].batch(images, 5, rngs(2))
    again, _ = CORRUPTIONS[name].batch(images, 5, rngs(2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, second) == (CORRUPTIONS[name].draw is None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_whole_severity_is_visible(name, family, make_images):
    side = int(family)
    images = make_images(1, side, side)
    for severity in (1, 2, 3, 4, 5):
        change = CORRUPTIONS[name].batch(images, severity, rngs(1)).astype(float) - images
        assert np.abs(change).mean() > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_the_family_follows_the_shorter_side_and_can_be_chosen(name, make_images):
    images = make_images(1, 48, 300)
    chosen = CORRUPTIONS[name]
    default = chosen.batch(images, 5, rngs(1))
    assert np.array_equal(default, chosen.batch(images, 5, rngs(1), family="32"))
    if chosen.quantities(5, "32") != chosen.quantities(5, "224"):
        assert not np.array_equal(default, chosen.batch(images, 5, rngs(1), family="224"))


def test_family_borders():
    assert [family_of(side, 999) for side in (1, 48, 49, 96, 97)] == ["32", "32", "64", "64", "224"]


@pytest.mark.parametrize("name", NAMES)
def test_whole_severities_meet_the_table_exactly(name):
    for family, rows in CORRUPTIONS[name].tables.items():
        for severity, row in enumerate(rows):
            assert CORRUPTIONS[name].quantities(severity, family) == np.atleast_1d(row).tolist()


def test_names_come_in_the_published_order():
    assert NAMES[:3] == ["gaussian_noise", "shot_noise", "impulse_noise"]
    assert NAMES[7:10] == ["snow", "frost", "fog"]
    assert NAMES[15:] == ["speckle_noise", "gaussian_blur", "spatter", "saturate"]


def test_severities_between_are_on_a_line():
    assert CORRUPTIONS["gaussian_noise"].quantities(4.25, "224") == pytest.approx([0.29])
    assert CORRUPTIONS["defocus_blur"].quantities(0.5, "224") == pytest.approx([1.5, 0.05])
    assert 1 / CORRUPTIONS["shot_noise"].quantities(1.5, "224")[0] == pytest.approx(35.294, abs=1e-3)
    qualities = [round(CORRUPTIONS["jpeg"].quantities(step / 4, "224")[0]) for step in range(21)]
    assert qualities == [85, 70, 55, 40, 25, 23, 22, 20, 18, 17, 16, 16, 15, 14, 12, 11, 10, 9, 8, 8, 7]


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_sample_comes_back_as_its_kind(name, make_images):
    image = make_images(1, 32, 36)[0]
    chosen = CORRUPTIONS[name]
    expected = chosen(image, 2, rngs(1)[0])
    picture = chosen(Image.fromarray(image), 2, rngs(1)[0])
    assert picture.mode == "RGB"
    assert np.array_equal(np.asarray(picture), expected)
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    levels = chosen(tensor, 2, rngs(1)[0])
    assert levels.dtype == torch.uint8
    assert np.array_equal(levels.permute(1, 2, 0).numpy(), expected)
    for dtype in (torch.float32, torch.float64):
        values = chosen((tensor / 255).to(dtype), 2, rngs(1)[0])
        assert values.dtype == dtype
        assert values.shape == tensor.shape
        assert torch.equal(values, (levels.double() / 255).to(dtype))


@pytest.mark.parametrize("name", NAMES)
def test_grey_becomes_three_channels(name, make_images):
    grey = make_images(1, 32, 36)[0, :, :, 0]
    expected = CORRUPTIONS[name](np.stack([grey] * 3, axis=-1), 3, rngs(1)[0])
    assert np.array_equal(CORRUPTIONS[name](grey, 3, rngs(1)[0]), expected)
    assert np.array_equal(np.asarray(CORRUPTIONS[name](Image.fromarray(grey), 3, rngs(1)[0])), expected)


def test_palettes_with_transparency_are_taken_as_rgb():
    picture = Image.new("P", (8, 8), 1)
    picture.putpalette([0, 0, 0, 200, 100, 50])
    picture.info["transparency"] = bytes([0, 128])
    assert np.asarray(CORRUPTIONS["pixelate"](picture, 1, rngs(1)[0]))[0, 0].tolist() == [200, 100, 50]


def test_corruptions_chain_through_eight_bits(make_images):
    images = make_images(3, 32, 32)
    both = images
    for name in ("contrast", "gaussian_noise"):
        both = CORRUPTIONS[name].batch(both, 1.25, rngs(3))
    one = CORRUPTIONS["gaussian_noise"](CORRUPTIONS["contrast"](images[1], 1.25, rngs(2)[1]), 1.25, rngs(2)[1])
    assert np.array_equal(both[1], one)


@pytest.mark.parametrize("severity", [-0.1, 5.1, float("nan"), float("inf")])
def test_severities_outside_the_scale_are_refused(severity, make_images):
    with pytest.raises(ValueError, match=r"between 0 .* and 5"):
        CORRUPTIONS["contrast"](make_images(1, 8, 8)[0], severity, rngs(1)[0])


def test_wrong_arguments_are_refused_with_a_remedy(make_images):
    images = make_images(2, 8, 8)
    contrast, noise = CORRUPTIONS["contrast"], CORRUPTIONS["gaussian_noise"]
    with pytest.raises(ValueError, match="choose one of 32, 64, 224"):
        contrast.batch(images, 1, rngs(2), family="128")
    with pytest.raises(ValueError, match="pass uint8"):
        contrast.batch(images / 255, 1, rngs(2))
    with pytest.raises(ValueError, match="one generator per sample"):
        noise.batch(images, 1, rngs(1))
    with pytest.raises(ValueError, match="pass uint8"):
        contrast(images[0].astype(np.float32), 1, rngs(1)[0])
    with pytest.raises(ValueError, match="before they are normalised"):
        contrast(torch.full((3, 8, 8), -1.0), 1, rngs(1)[0])
    with pytest.raises(ValueError, match="before they are normalised"):
        contrast(torch.full((3, 8, 8), float("nan")), 1, rngs(1)[0])
    with pytest.raises(ValueError, match="one image at a time"):
        contrast(torch.zeros(2, 3, 8, 8), 1, rngs(1)[0])
    with pytest.raises(ValueError, match="more than 8 bits"):
        contrast(Image.new("I;16", (8, 8)), 1, rngs(1)[0])
    with pytest.raises(TypeError, match="cannot corrupt a str"):
        contrast("picture.png", 1, rngs(1)[0])
    with pytest.raises(ValueError, match="between 1 and 100"):
        store_as_jpeg(images, 0)


def test_the_catalogue_answers_to_names_and_short_names():
    assert CORRUPTIONS["jpeg"] is CORRUPTIONS["jpeg_compression"]
    assert CORRUPTIONS["elastic"] is CORRUPTIONS["elastic_transform"]
    assert "jpeg" in CORRUPTIONS
    assert "jpeg" not in CORRUPTIONS.names("image")
    assert "sepia" not in CORRUPTIONS
    with pytest.raises(UnknownNameError, match="did you mean 'gaussian_noise'"):
        CORRUPTIONS["gausian_noise"]
    for entry in CORRUPTIONS.entries():
        assert CORRUPTIONS[entry.name].name == entry.name
        assert entry.summary.endswith(".")
        assert entry.citation


@pytest.mark.parametrize("name", NAMES)
def test_corruptions_travel_to_other_processes(name):
    assert pickle.loads(pickle.dumps(CORRUPTIONS[name])) is CORRUPTIONS[name]
    assert {CORRUPTIONS[name]: name}[CORRUPTIONS[name]] == name


def test_draws_may_have_several_fields_of_any_shape(make_images):
    def draw(rng, image, low, high):
        return rng.standard_normal(image.shape[:2]), rng.uniform(low, high), rng.integers(0, 9, (4, 2))

    def apply(images, field, angle, pairs, low, high):
        assert (field.shape, angle.shape, pairs.shape) == ((2, 8, 9), (2,), (2, 4, 2))
        assert np.all((low <= angle) & (angle <= high))
        return images

    tables = dict.fromkeys(FAMILIES, ((0, 0), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)))
    several = Corruption("several", tables, apply, draw, whole_severities=True)
    assert np.array_equal(several.batch(make_images(2, 8, 9), 2, rngs(2)), make_images(2, 8, 9))
    with pytest.raises(ValueError, match=r"several has no severity 2\.5"):
        several.batch(make_images(2, 8, 9), 2.5, rngs(2))


def test_incomplete_tables_are_refused_and_not_registered():
    with pytest.raises(ValueError, match="six rows"):
        corruption("five_rows", dict.fromkeys(FAMILIES, (1, 2, 3, 4, 5)))(lambda images, _: images)
    assert "five_rows" not in CORRUPTIONS


def test_noise_has_the_expected_variance():
    grey = np.full((64, 32, 32, 3), 128, np.uint8)  # no values are clipped at this level
    value = 128 / 255

    def variance(name, severity):
        return np.var(CORRUPTIONS[name].batch(grey, severity, rngs(64)) / 255) - 1 / 12 / 255**2  # of truncation

    assert variance("gaussian_noise", 3) == pytest.approx(0.08**2, rel=0.02)
    assert variance("speckle_noise", 5) == pytest.approx((0.2 * value) ** 2, rel=0.02)
    assert variance("shot_noise", 5) == pytest.approx(value / 50, rel=0.02)


def test_impulses_are_black_or_white_in_equal_shares():
    hit = CORRUPTIONS["impulse_noise"].batch(np.full((64, 32, 32, 3), 128, np.uint8), 5, rngs(64))
    assert set(np.unique(hit)) == {0, 128, 255}
    assert (hit == 0).mean() == pytest.approx(0.035, rel=0.03)
    assert (hit == 255).mean() == pytest.approx(0.035, rel=0.03)
    assert np.any((hit == 128).any(axis=-1) & (hit != 128).any(axis=-1))  # single channels, not whole pixels


@pytest.mark.parametrize("family", FAMILIES)
def test_contrast_keeps_the_mean_of_each_channel(family, make_images):
    images = make_images(4, 30, 44)
    for severity in (0.5, 1, 2.5, 5):
        changed = CORRUPTIONS["contrast"].batch(images, severity, [], family=family)
        assert np.abs(changed.mean(axis=(1, 2)) - images.mean(axis=(1, 2))).max() <= 1


@pytest.mark.parametrize("family", FAMILIES)
def test_brightness_never_lowers_a_value_and_lifts_black_to_grey(family):
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    images[0, :8] = 0
    images[1, :8] = 255
    for severity in (0.1, 1, 2.5, 5):
        brighter = CORRUPTIONS["brightness"].batch(images, severity, [], family=family)
        assert np.all(brighter >= images)
        shift = CORRUPTIONS["brightness"].quantities(severity, family)[0]
        assert np.all(brighter[0, :8] == int(255 * shift))


@pytest.mark.parametrize("family", FAMILIES)
def test_pixelate_leaves_few_distinct_rows_and_columns(family, make_images):
    images = make_images(2, 40, 52)
    for severity in (1, 2.5, 5):
        factor = CORRUPTIONS["pixelate"].quantities(severity, family)[0]
        blocks = CORRUPTIONS["pixelate"].batch(images, severity, [], family=family)[0]
        assert np.unique(blocks, axis=0).shape[0] <= int(40 * factor)
        assert np.unique(blocks, axis=1).shape[1] <= int(52 * factor)


def test_defocus_of_a_point_is_a_disk_and_below_one_pixel_nothing():
    point = np.zeros((1, 41, 41, 3), np.uint8)
    point[0, 20, 20] = 255
    y, x = np.ogrid[-20:21, -20:21]
    for severity, radius in ((2, 4), (3, 6)):
        disk = CORRUPTIONS["defocus_blur"].batch(point, severity, [], family="224")[0, :, :, 0] > 0
        assert disk[y**2 + x**2 <= (radius - 1) ** 2].all()
        assert not disk[y**2 + x**2 > (radius + 2) ** 2].any()
    noise = np.random.default_rng(0).integers(0, 256, (1, 41, 41, 3), np.uint8)
    assert np.array_equal(CORRUPTIONS["defocus_blur"].batch(noise, 0.25, [], family="224"), noise)


def test_blurs_keep_an_even_picture_even():
    picture = np.full((1, 60, 50, 3), 200, np.uint8)
    for name in ("defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "zoom_blur", "elastic_transform"):
        for severity in (1, 2, 3):
            even = CORRUPTIONS[name].batch(picture, severity, rngs(1), family="224")
            assert even.max() <= 200
            assert even.min() >= 199  # truncation may cost the published formula a level
            if name in ("defocus_blur", "gaussian_blur", "motion_blur"):
                assert even.min() == even.max()


def test_motion_draws_a_point_out_to_one_side():
    point = np.zeros((1, 41, 41, 3), np.uint8)
    point[0, 20, 20] = 255
    lit = np.argwhere(trail(point, np.array([0.0]), 9, 5)[0, :, :, 0])
    assert lit[:, 0].tolist() == [20] * len(lit)
    assert lit[:, 1].max() == 20  # the pixels to the right
    assert 10 < 20 - lit[:, 1].min() <= 18
    steep = np.argwhere(trail(point, np.array([-90.0]), 9, 5)[0, :, :, 0])
    assert np.array_equal(steep[:, 0] - 20, (20 - lit[:, 1])[::-1])


def glass_by_hand(values, offsets, reach):
    values = values.copy()
    height, width = values.shape
    order = iter(offsets)
    for row in range(height - reach, reach, -1):
        for column in range(width - reach, reach, -1):
            across, down = next(order)
            values[row, column] = values[row + down, column + across]
    return values


@pytest.mark.parametrize(("height", "width", "reach"), [(12, 17, 1), (20, 15, 4), (8, 30, 4), (3, 3, 1), (2, 9, 2)])
def test_glass_copies_pixel_after_pixel(height, width, reach):
    rng = np.random.default_rng(0)
    inner = max(0, height - 2 * reach) * max(0, width - 2 * reach)
    offsets = rng.integers(-reach, reach, (2, inner, 2))
    sources = glass.sources(offsets, height, width, reach).reshape(2, height, width)
    starts = np.arange(2 * height * width).reshape(2, height, width)
    for pixels, start, moves in zip(sources, starts, offsets, strict=True):
        assert np.array_equal(pixels, glass_by_hand(start, moves, reach))


def test_zoom_keeps_the_middle_and_enlarges_about_it():
    picture = np.zeros((1, 33, 47, 3), np.uint8)
    picture[0, 16, 23] = 255
    blurred = CORRUPTIONS["zoom_blur"].batch(picture, 5, [])[0, :, :, 0].astype(float)
    y, x = np.indices(blurred.shape)
    assert (y * blurred).sum() / blurred.sum() == pytest.approx(16, abs=0.6)
    assert (x * blurred).sum() / blurred.sum() == pytest.approx(23, abs=0.6)
    assert [first.tolist() for first in zoom_taps(5, 1)][0::2] == [[0, 1, 2, 3, 3], [0, 0, 0, 0, 1]]


def test_fog_is_as_bright_as_the_picture():
    dark = np.full((4, 32, 32, 3), 60, np.uint8)
    hazy = CORRUPTIONS["fog"].batch(dark, 5, rngs(4))
    assert hazy.max() <= 60
    assert hazy.std() > 5
    assert not np.any(CORRUPTIONS["fog"].batch(np.zeros_like(dark), 5, rngs(4)))


def test_clouds_fill_the_range_and_join_at_their_borders():
    clouds = plasma(np.random.default_rng(0).random((3, 64**2 - 1)), 64, 2.5)
    assert clouds.min(axis=(1, 2)).tolist() == [0, 0, 0]
    assert clouds.max(axis=(1, 2)).tolist() == [1, 1, 1]
    inside = np.abs(np.diff(clouds, axis=2)).mean()
    assert np.abs(clouds[:, :, 0] - clouds[:, :, -1]).mean() < 2 * inside


def test_snow_falls_from_both_sides():
    black = np.zeros((1, 48, 64, 3), np.uint8)
    fallen = CORRUPTIONS["snow"].batch(black, 4, rngs(1))[0]
    assert np.array_equal(fallen, fallen[::-1, ::-1])
    assert np.array_equal(fallen[..., 0], fallen[..., 2])


def test_elastic_without_draws_leaves_the_picture_alone(make_images):
    images = make_images(2, 20, 31)
    still, fields = np.zeros((2, 3, 2)), np.zeros((2, 2, 20, 31))
    assert np.array_equal(CORRUPTIONS["elastic"].apply(images, still, fields, 10, 2, 5), images)
    pushed = np.zeros_like(fields)
    pushed[:, 0] = 0.5  # constant, so that smoothing changes nothing
    pushed[:, 1] = -0.5
    moved = CORRUPTIONS["elastic"].apply(images, still, pushed, 4, 2, 5)
    assert np.abs(moved[:, 2:, :-2].astype(int) - images[:, :-2, 2:]).max() <= 1


def test_spatter_turns_from_water_to_mud_above_three(make_images):
    images = make_images(1, 64, 64)
    for severity in (0.5, 3):
        assert np.all(CORRUPTIONS["spatter"].batch(images, severity, rngs(1)) >= images)  # water only brightens
    muddy = CORRUPTIONS["spatter"].batch(images, 3.01, rngs(1))
    covered = (muddy != images).any(axis=-1)
    assert covered.any()
    assert np.abs(muddy[covered].astype(int) - (63, 42, 20)).mean() < np.abs(images[covered] - (63, 42, 20)).mean()
    assert np.array_equal(CORRUPTIONS["spatter"].apply(images, np.zeros((1, 64, 64)), 0, 1, 1, 0.5, 1, 0), images)


def test_distances_are_those_of_the_shortest_paths():
    marked = np.zeros((2, 30, 50), bool)
    marked[0, 4, 7] = True
    distances = distance_to(marked) / 65536
    assert distances[1].min() == distances[1].max() == 20
    assert distances[0, 4, 7] == 0
    assert distances[0, 4, 17] == distances[0, 14, 7] == 10
    assert distances[0, 7, 10] == pytest.approx(3 * 1.4, abs=1e-4)
    assert distances[0, 6, 11] == distances[0, 8, 9] == pytest.approx(2 * 2.1969, abs=1e-4)
    assert distances[0, 29, 49] == 20


def test_edges_are_thin_and_need_a_strong_beginning():
    step = np.zeros((3, 20, 20), np.uint8)
    step[0, :, 10:] = 200
    step[1, :, 10:] = 25  # a gradient of 100: enough to continue an edge, not to start one
    marked = edges(step)
    assert marked[0].sum(axis=1).tolist() == [1] * 20
    assert not marked[1:].any()
    step[1, :5, 10:] = 200
    assert edges(step)[1, 15, 9:11].any()


def test_equalised_levels_span_the_range_in_order():
    layer = np.repeat(np.array([3, 5, 9, 10], np.uint8), [10, 20, 30, 40]).reshape(10, 10)
    assert np.unique(equalise(layer)).tolist() == [0, 57, 142, 255]
    assert np.array_equal(equalise(layer[:1]), layer[:1])


def test_saturation_of_grey_and_of_colours():
    picture = np.array([[[[100, 100, 100], [200, 100, 50], [0, 0, 0]]]], np.uint8)
    pale, strong = (CORRUPTIONS["saturate"].batch(picture, severity, [], family="224")[0, 0] for severity in (2, 5))
    assert pale.ravel() == pytest.approx([100, 100, 100, 200, 190, 185, 0, 0, 0], abs=1)
    assert strong[0].tolist() == [100, 80, 80]  # grey turns reddish, as in the published images
    assert strong[1, 0] == 200
    assert strong[1, 2] == 0
    with pytest.raises(ValueError, match=r"saturate has no severity 2\.5"):
        CORRUPTIONS["saturate"].batch(picture, 2.5, [])


def test_storage_is_the_jpeg_corruption_at_its_quality(make_images):
    images = make_images(2, 40, 56)
    assert np.array_equal(store_as_jpeg(images, 25), CORRUPTIONS["jpeg"].batch(images, 1, [], family="224"))
    assert np.array_equal(store_as_jpeg(images[:1], 25), store_as_jpeg(images, 25)[:1])
    even = np.full((1, 24, 24, 3), 77, np.uint8)
    assert np.array_equal(store_as_jpeg(even, 95), even)
