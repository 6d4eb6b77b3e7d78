"""The criteria of DHAuDS as domains, in their own stream and in others."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import wavfile

from holdfast.audio import fit_length
from holdfast.corruptions import CORRUPTIONS
from holdfast.corruptions.audio import criterion_corruption
from holdfast.corruptions.audio.dhauds import criterion
from holdfast.data import Digits, InMemoryAudio
from holdfast.streams import dhauds, gradual, markov, unitta

RATE = 16_000
TIME = np.arange(6_001) / RATE
NATURAL = [
    np.float32(0.3 * np.sin(2 * np.pi * 150 * (2 + number) * TIME[: 4_001 + 400 * number]) + 0.01)
    for number in range(6)
]
SAMPLES = 8_000
SOUNDS = InMemoryAudio(
    np.stack([fit_length(clip, SAMPLES) for clip in NATURAL]), np.arange(6) % 3, sample_rate=RATE, name="tones"
)


@pytest.mark.parametrize("compat", [False, True])
def test_clips_are_those_of_the_criteria_under_the_published_seeds(compat: bool) -> None:
    names = ["WHN-L2", "ENSC-L1", "TST-L1", "PSH-L2"]
    stream = dhauds(SOUNDS, criteria=names, dataset="rs", compat=compat)
    for copy, given in (("evaluation", stream), ("adaptation", stream.redrawn())):
        for position, (start, stop) in enumerate(stream.episodes(24)):
            batch = given.render(start, stop)
            made = criterion(
                names[position],
                "rs",
                sample_rate=RATE,
                samples=SAMPLES,
                copy=copy,
                compat=compat,  # type: ignore[arg-type]
            )
            assert batch.new_episode
            assert batch.domains == (names[position],) * 6
            for row, index in enumerate(stream.plan.picks(start, stop).samples):
                # A change of tempo is applied to the clip without its padding.
                expected = made(NATURAL[index], made.rng(copy, int(index)))[:SAMPLES]  # type: ignore[arg-type]
                assert np.array_equal(batch.inputs[row].numpy(), expected), names[position]


def test_another_seed_draws_anew_and_the_noise_stands_in_the_protocol(tmp_path: Path) -> None:
    first, second = (dhauds(SOUNDS, criteria=["ENQ-L1"], samples_per_domain=3, seed=seed) for seed in (0, 1))
    assert first.protocol == second.protocol
    assert len({copy.fingerprint for one in (first, second) for copy in (one, one.redrawn())}) == 4
    assert not torch.equal(first.first(3), second.first(3))
    rng = np.random.default_rng(0)
    for kind in ("HOME", "REVERB", "STREET"):
        wavfile.write(tmp_path / f"{kind}-HALL-1.wav", RATE, np.int16(rng.normal(0, 3000, 20_000)))
    for noise in (tmp_path, {"ENQ": tmp_path}):
        recorded = dhauds(SOUNDS, criteria=["ENQ-L1"], noise=noise, samples_per_domain=3)
        assert "3 recordings of digest" in str(recorded.spec["own"])
        assert not torch.equal(recorded.first(3), first.first(3))
    assert dhauds(SOUNDS, criteria=["TST-L1"]).protocol != dhauds(SOUNDS, criteria=["TST-L1"], compat=True).protocol


def test_unsuitable_data_and_criteria_are_refused() -> None:
    assert len(dhauds(SOUNDS).domains) == 14
    assert len(dhauds(SOUNDS, dataset="us8").domains) == 8
    with pytest.raises(ValueError, match="us8 has no criterion 'ENQ-L1'"):
        dhauds(SOUNDS, dataset="us8", criteria=["ENQ-L1"])
    with pytest.raises(ValueError, match="dhauds needs audio data"):
        dhauds(Digits(), criteria=["WHN-L1"])


def test_criteria_are_domains_of_chains() -> None:
    names = ["WHN-L1", "ENQ-L2", "PSH-L1"]
    stream = markov(SOUNDS, corruptions=names, classes={"stay": 0.9}, samples=60)
    assert set(stream.domains) == set(names)
    assert stream.render(0, 12).inputs.shape == (12, SAMPLES)
    correlated = unitta(SOUNDS, setting="(n,1)/(1,1)", corruptions=names, mode="stationary", samples=60)
    assert torch.isfinite(correlated.first(60)).all()


def test_severities_change_smoothly_on_audio() -> None:
    stream = gradual(SOUNDS, corruptions=["white_noise"], severities=[0.5, 1.5, 2.5], samples_per_domain=6)
    clean = SOUNDS.inputs(stream.plan.picks(0, 18).samples)
    energy = ((stream.render(0, 18).inputs.numpy() - clean) ** 2).sum(1) / (clean**2).sum(1)
    by_severity = energy.reshape(3, 6)
    assert (np.diff(by_severity.mean(1)) > 0).all()
    assert np.allclose(by_severity, by_severity.mean(1, keepdims=True), rtol=1e-3)


def test_a_criterion_travels_to_another_process() -> None:
    clips = SOUNDS.waveforms[:2]
    for sent in (CORRUPTIONS["ENSC-L1"], criterion_corruption("TST-L2", "sc2", compat=False)):
        back = pickle.loads(pickle.dumps(sent))
        rngs = [[np.random.default_rng(row) for row in range(2)] for _ in range(2)]
        assert np.array_equal(sent.batch(clips, 1, rngs[0]), back.batch(clips, 1, rngs[1]))
