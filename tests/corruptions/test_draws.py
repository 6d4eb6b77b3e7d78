"""Random fields from both kinds of generator."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.corruptions import CORRUPTIONS
from holdfast.corruptions.draws import integers, normal, uniform, words
from holdfast.randomness import seeded_rng


def test_a_random_state_gives_the_legacy_stream():
    for draw, legacy in (
        (normal, lambda rng: rng.standard_normal((4, 5))),
        (uniform, lambda rng: rng.random_sample((4, 5))),
        (lambda rng, shape: integers(rng, -2, 2, shape), lambda rng: rng.randint(-2, 2, (4, 5))),
    ):
        assert np.array_equal(draw(np.random.RandomState(3), (4, 5)), legacy(np.random.RandomState(3)))


def test_a_generator_gives_the_same_distributions():
    values = normal(seeded_rng(0, "x"), (500, 500)).astype(float)
    assert values.dtype == np.float64
    assert [np.mean(values**power) for power in (1, 2, 3, 4)] == pytest.approx([0, 1, 0, 3], abs=0.03)
    even = uniform(seeded_rng(0, "x"), (500, 500)).astype(float)
    assert 0 < even.min() < 1e-4
    assert 1 - 1e-4 < even.max() < 1
    assert np.histogram(even, 10, (0, 1))[0] == pytest.approx([25_000] * 10, rel=0.03)
    whole = integers(seeded_rng(0, "x"), -2, 2, (40_000,))
    assert np.unique(whole, return_counts=True)[1] == pytest.approx([10_000] * 4, rel=0.05)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("kind", [np.random.Philox, np.random.PCG64, np.random.MT19937])
def test_words_use_every_bit(dtype, kind):
    drawn = words(np.random.Generator(kind(0)), (3, 4001), dtype)
    assert drawn.shape == (3, 4001)
    bits = np.unpackbits(np.ascontiguousarray(drawn).view(np.uint8))
    shares = bits.reshape(-1, 8 * drawn.itemsize).mean(axis=0)
    assert shares == pytest.approx([0.5] * len(shares), abs=0.02)


@pytest.mark.parametrize(("family", "severity"), [("224", 5), ("224", 0.5), ("32", 1), ("64", 3.3)])
def test_photons_are_counted_alike_from_both_kinds(family, severity):
    grey = np.repeat(np.arange(0, 256, 15, dtype=np.uint8), 40_000).reshape(1, 1, -1, 1).repeat(3, axis=-1)
    shot_noise = CORRUPTIONS["shot_noise"]
    legacy, quick = (
        shot_noise.batch(grey, severity, [rng], family=family).reshape(18, -1)
        for rng in (np.random.RandomState(0), seeded_rng(0, "x"))
    )
    for level, (expected, actual) in enumerate(zip(legacy, quick, strict=True)):
        assert actual.mean() == pytest.approx(expected.mean(), abs=1), level
        assert actual.std() == pytest.approx(expected.std(), rel=0.02), level
        counts = [np.bincount(levels, minlength=256) for levels in (expected, actual)]
        assert np.abs(counts[0] - counts[1]).max() < 5 * np.sqrt(2 * max(counts[0])), level


@pytest.mark.parametrize("reach", [1, 2, 3, 4])
@pytest.mark.parametrize("before", [0, 1])  # an odd number of 32-bit draws leaves half a word in the generator
def test_integers_are_those_of_numpy_whichever_way_they_are_drawn(reach, before):
    ours, numpys = seeded_rng(3, "offsets"), seeded_rng(3, "offsets")
    for rng in (ours, numpys):
        rng.integers(0, 9, before, np.int32)
    np.testing.assert_array_equal(
        integers(ours, -reach, reach, (5, 6)), numpys.integers(-reach, reach, (5, 6), np.int32)
    )
    assert ours.random() == numpys.random()
