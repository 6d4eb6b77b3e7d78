"""The criteria of DHAuDS: grids, lengths, seeds and the errors of the official code."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.corruptions.audio import dhauds, environments
from holdfast.corruptions.audio.dhauds import CLIPS, SEEDS, criteria, criterion, noises_of


def clip(samples, sample_rate=16_000):
    return (0.3 * np.sin(2 * np.pi * 400 * np.arange(samples) / sample_rate)).astype(np.float32)


def test_there_are_fifty_criteria():
    assert sum(len(criteria(dataset)) for dataset in CLIPS) == 50
    assert criteria("us8") == [
        f"{family}-{level}" for family in ("WHN", "ENSC", "TST", "PSH") for level in ("L1", "L2")
    ]
    assert SEEDS == {"adaptation": 2025, "evaluation": 123456}
    with pytest.raises(ValueError, match="us8 has no criterion 'ENQ-L1'"):
        criterion("ENQ-L1", "us8")
    with pytest.raises(ValueError, match="choose one of urbansound8k, speech_commands, vocalsound, reefset"):
        criteria("esc")


@pytest.mark.parametrize(
    ("name", "grid", "official"),
    [
        ("WHN-L1", (6, 6.5, 7), None),
        ("WHN-L2", (5, 5.5, 6, 6.5, 7), None),
        ("ENQ-L1", (5, 5.5, 6), None),
        ("END2-L2", (5, 5.5, 6, 6.5, 7), None),
        ("TST-L1", (0.04, 0.05, 0.06, -0.04, -0.05, -0.06), (0.04, 0.05, -0.04, -0.05)),
        ("TST-L2", (0.08, 0.09, 0.1, 0.11, 0.12), (0.08, 0.09, 0.1, 0.11)),
        ("PSH-L1", (4, 5, -4, -5), None),
        ("PSH-L2", (5, 6, 7, -5, -6, -7), None),
    ],
)
def test_grids_are_the_published_ones(name, grid, official):
    dataset = "sc2" if name == "TST-L2" else "rs"  # Speech Commands is only sped up
    assert criterion(name, dataset).grid == grid
    assert criterion(name, dataset, compat=True).grid == (official or grid)


@pytest.mark.parametrize("name", ["WHN-L2", "ENSC-L1"])
def test_every_clip_meets_one_of_the_ratios(name):
    noisy = criterion(name, "sc2")
    clean = clip(16_000)
    ratios = set()
    for index in range(25):
        noise = noisy(clean, noisy.rng("evaluation", index)).astype(np.float64) - clean
        ratios.add(10 * np.log10(np.sum(clean.astype(np.float64) ** 2) / np.sum(noise**2)))
    assert {round(2 * ratio) / 2 for ratio in ratios} == set(noisy.grid)
    assert all(abs(ratio - round(2 * ratio) / 2) < 0.01 for ratio in ratios)


def test_clips_depend_on_seed_criterion_and_index_only():
    noisy, other = criterion("WHN-L1", "sc2"), criterion("WHN-L2", "sc2")
    first, again = (noisy(clip(9_000), noisy.rng("adaptation", 3)) for _ in range(2))
    assert np.array_equal(first, again)
    for rng in (noisy.rng("adaptation", 4), noisy.rng("evaluation", 3), other.rng("adaptation", 3)):
        assert not np.array_equal(first, noisy(clip(9_000), rng))


@pytest.mark.parametrize("name", ["WHN-L1", "TST-L2", "PSH-L1"])
@pytest.mark.parametrize("samples", [9_000, 40_000])
def test_clips_of_any_length_become_those_of_the_data_set(name, samples):
    changed = criterion(name, "rs")
    assert changed(clip(samples), changed.rng("adaptation", 0)).shape == (30_080,)


def test_noise_is_added_to_the_silence_and_stretched_clips_stand_in_it():
    noisy, stretched = criterion("WHN-L1", "sc2"), criterion("TST-L1", "sc2")
    assert noisy(clip(8_000), noisy.rng("adaptation", 0))[:1000].any()
    for index in range(6):
        faster = stretched(clip(8_000), stretched.rng("adaptation", index))
        sounding = np.flatnonzero(faster)
        assert 7_400 < sounding[-1] - sounding[0] < 7_700  # by 4 to 6 per cent, never slower
        assert abs(sounding[0] + sounding[-1] - 15_999) <= 2  # in the middle


def test_another_sample_rate_keeps_the_seconds():
    assert criterion("PSH-L1", "us8").samples == 176_400
    assert criterion("PSH-L1", "us8", sample_rate=16_000).samples == 64_000


def test_compat_is_what_the_official_code_does():
    stretched = criterion("TST-L2", "rs", copy="evaluation", compat=True)
    assert stretched.samples == int(1.12 * 30_080)
    assert criterion("TST-L2", "rs", copy="adaptation", compat=True).samples == 30_080
    assert criterion("TST-L2", "vs", copy="evaluation", compat=True).samples == 160_000
    official = stretched(clip(30_080), stretched.rng("evaluation", 0))
    assert official.std() < 0.5 * clip(30_080).std()  # square roots of the magnitudes
    assert np.array_equal(official * 32768, np.rint(official * 32768))  # 16 bits
    noisy = criterion("WHN-L1", "sc2", compat=True)
    means = [(noisy(clip(16_000), noisy.rng("adaptation", index))).mean() for index in range(12)]
    assert max(means) > 0.05  # uniform noise from 0 to 1
    correct = criterion("WHN-L1", "sc2")
    assert max(correct(clip(16_000), correct.rng("adaptation", index)).mean() for index in range(12)) < 0.01


def test_levels_choose_their_noises(monkeypatch):
    assert [recording.label for recording in noises_of("END1", "L1")] == ["NFIELD", "PRESTO", "TCAR", "OOFFICE"]
    assert {recording.label for recording in noises_of("END1", "L2")} >= {"DKITCHEN", "STRAFFIC", "TCAR"}
    for family in ("ENQ", "END1", "END2", "ENSC"):
        both = {recording.label for recording in noises_of(family, "L2")}
        assert both == {recording.label for recording in environments(family.lower())}
    asked = []
    monkeypatch.setitem(dhauds.CORPORA, "ENQ", lambda folder, labels: asked.append((folder, labels)) or [])
    noises_of("ENQ", "L1", "noises")
    assert asked == [("noises", ("HOME", "REVERB", "STREET"))]


def test_recordings_of_your_own_are_used():
    hum = environments("ensc", ["running_tap"])
    mine = criterion("ENQ-L2", "sc2", noise=hum)
    other = criterion("ENQ-L2", "sc2")
    assert not np.array_equal(*(each(clip(16_000), each.rng("adaptation", 0)) for each in (mine, other)))
