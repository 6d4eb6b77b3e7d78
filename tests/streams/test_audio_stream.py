"""Audio streams: rendered like image streams, with the sample rate passed on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from holdfast.corruptions import CORRUPTIONS
from holdfast.data import InMemoryAudio, InMemoryImages
from holdfast.randomness import seeded_rng
from holdfast.streams import continual, export_shards, mixed_domains

TIME = np.arange(1_600) / 16_000
CLIPS = np.float32([np.sin(2 * np.pi * 300 * (1 + number) * TIME) for number in range(6)])
SOUNDS = InMemoryAudio(CLIPS, np.arange(6) % 3, sample_rate=16_000, name="tones")


def test_audio_is_corrupted_by_its_own_draws_whatever_the_batch() -> None:
    stream = mixed_domains(SOUNDS, corruptions=["white_noise", "ensc", "clean"], severity=3, seed=5)
    whole = next(iter(stream.starting_at(batch_size=18)))
    assert whole.inputs.shape == (18, 1_600)
    assert whole.inputs.dtype == torch.float32
    parts = torch.cat([batch.inputs for batch in stream.starting_at(batch_size=5)])
    assert torch.equal(whole.inputs, parts)
    picks = stream.plan.picks(0, 18)
    for row, (sample, domain) in enumerate(zip(picks.samples, whole.domains, strict=True)):
        clean = CLIPS[sample]
        if domain != "clean":
            rng = seeded_rng(5, domain, int(sample))
            clean = CORRUPTIONS[domain](clean, 3, rng, sample_rate=16_000)
        assert np.array_equal(whole.inputs[row].numpy(), clean), domain
    assert np.array_equal(SOUNDS.waveforms, CLIPS)


def test_the_sample_rate_reaches_the_corruption_and_the_protocol() -> None:
    other = InMemoryAudio(CLIPS, SOUNDS.labels, sample_rate=8_000)
    slow, fast = (continual(data, corruptions=["ensc"], severity=5) for data in (other, SOUNDS))
    assert not torch.equal(slow.first(6), fast.first(6))
    assert fast.preprocessing == "mono float32 in [-1, 1] at 16000 Hz"
    assert slow.protocol != fast.protocol


def test_options_that_do_not_fit_audio_are_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"pixelate cannot corrupt audio data such as tones; choose from .*white"):
        continual(SOUNDS, corruptions=["pixelate"])
    with pytest.raises(ValueError, match="no family, no crop and no JPEG storage"):
        continual(SOUNDS, corruptions=["clean"], storage_jpeg_quality=85)
    with pytest.raises(ValueError, match="shards hold images"):
        export_shards(continual(SOUNDS, corruptions=["clean"]), tmp_path)
    images = InMemoryImages(np.zeros((2, 8, 8, 3), np.uint8), np.array([0, 1]))
    with pytest.raises(ValueError, match="white_noise cannot corrupt image data"):
        continual(images, corruptions=["white_noise"])
