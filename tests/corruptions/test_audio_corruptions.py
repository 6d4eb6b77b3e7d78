"""Properties of all audio corruptions, and of single ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from holdfast.corruptions import CORRUPTIONS
from holdfast.corruptions.audio import audio_corruption, fit_length, mix, noise_from, shift_pitch, stretch
from holdfast.corruptions.audio.noise import draw_white
from holdfast.corruptions.audio.spectrum import analyse, stretch_frames, synthesise
from holdfast.corruptions.audio.tempo import griffin_lim, stretch_compat
from holdfast.randomness import seeded_rng

NAMES = CORRUPTIONS.names("audio")
QUICK = [name for name in NAMES if name != "time_stretch_compat"]
RATE = 16_000


def rngs(count, seed=0):
    return [seeded_rng(seed, "tests", index) for index in range(count)]


def tones(count=3, samples=4_000):
    time = np.arange(samples) / RATE
    pitches = 300 * (1 + np.arange(count))[:, None]
    return (0.3 * np.sin(2 * np.pi * pitches * time) + 0.05 * np.sin(2 * np.pi * 1700 * time)).astype(np.float32)


def snr_db(clean, noisy):
    clean, noisy = clean.astype(np.float64), noisy.astype(np.float64)
    return 10 * np.log10((clean**2).sum(-1) / ((noisy - clean) ** 2).sum(-1))


def loudest_hz(waveform):
    return np.abs(np.fft.rfft(waveform)).argmax() * RATE / len(waveform)


def test_sounds_come_after_images_in_the_catalogue():
    assert CORRUPTIONS.names() == [*CORRUPTIONS.names("image"), *NAMES]
    assert NAMES[:7] == ["white_noise", "enq", "end1", "end2", "ensc", "time_stretch", "pitch_shift"]
    assert CORRUPTIONS["psh"] is CORRUPTIONS["pitch_shift"]
    for name in NAMES:
        assert CORRUPTIONS[name].summary.endswith(".")
        assert CORRUPTIONS[name].citation
        assert pickle.loads(pickle.dumps(CORRUPTIONS[name])) is CORRUPTIONS[name]


@pytest.mark.parametrize("name", NAMES)
def test_batch_equals_one_by_one_and_keeps_shape_and_inputs(name):
    waveforms = tones(3, 12_000)  # two to a chunk
    waveforms.flags.writeable = False
    together = CORRUPTIONS[name].batch(waveforms, 2.5, rngs(3))
    apart = [CORRUPTIONS[name](clip, 2.5, rng) for clip, rng in zip(waveforms, rngs(3), strict=True)]
    assert together.dtype == np.float32
    assert np.array_equal(together, np.stack(apart))
    assert not np.array_equal(together, waveforms)
    assert np.array_equal(CORRUPTIONS[name].batch(waveforms, 0, []), waveforms)
    assert np.array_equal(CORRUPTIONS[name](waveforms[0], 0, rngs(1)[0]), waveforms[0])


@pytest.mark.parametrize("name", [name for name in QUICK if "noise" in name or name.startswith("en")])
def test_noise_meets_its_ratio_exactly_and_grows_smoothly(name):
    waveforms = tones()
    for severity, expected in ((1, 20), (2, 10), (3, 7), (4, 5), (5, 0)):
        noisy = CORRUPTIONS[name].batch(waveforms, severity, rngs(3))
        assert snr_db(waveforms, noisy) == pytest.approx([expected] * 3, abs=0.01)
    levels = [snr_db(waveforms, CORRUPTIONS[name].batch(waveforms, step / 4, rngs(3))) for step in range(1, 21)]
    assert np.all(np.diff(levels, axis=0) < 0)


def test_the_axis_holds_the_published_levels():
    assert CORRUPTIONS["tst"].quantities(1.5, "audio") == pytest.approx([0.05])
    assert CORRUPTIONS["tst"].quantities(3.5, "audio") == pytest.approx([0.10])
    assert CORRUPTIONS["psh"].quantities(2.5, "audio") == pytest.approx([4.5])


@pytest.mark.parametrize("name", QUICK)
def test_the_generator_alone_decides(name):
    same = np.repeat(tones(1), 6, axis=0)
    first, again = (CORRUPTIONS[name].batch(same, 3, rngs(6)) for _ in range(2))
    assert np.array_equal(first, again)
    assert len(np.unique(first, axis=0)) > 1


def test_each_kind_of_waveform_comes_back_as_its_kind():
    clip = tones(1)[0]
    for name in ("white_noise", "pitch_shift"):
        expected = CORRUPTIONS[name](clip, 2, rngs(1)[0])
        for dtype in (torch.float32, torch.float64):
            corrupted = CORRUPTIONS[name](torch.from_numpy(clip).to(dtype), 2, rngs(1)[0])
            assert corrupted.dtype == dtype
            assert np.array_equal(corrupted.float().numpy(), expected)
        assert CORRUPTIONS[name](clip.astype(np.float64), 2, rngs(1)[0]).dtype == np.float64
        assert np.isfinite(CORRUPTIONS[name](clip, 2, np.random.RandomState(0))).all()


def test_wrong_waveforms_are_refused_with_a_remedy():
    noise, rng = CORRUPTIONS["white_noise"], rngs(1)[0]
    with pytest.raises(ValueError, match="divided by 32768"):
        noise(np.zeros(9, np.int16), 1, rng)
    with pytest.raises(ValueError, match="one mono clip"):
        noise(torch.zeros(2, 9), 1, rng)
    with pytest.raises(ValueError, match="one mono clip"):
        noise(np.zeros(0, np.float32), 1, rng)
    with pytest.raises(ValueError, match="remove this recording"):
        noise(np.array([0.0, np.nan]), 1, rng)
    with pytest.raises(TypeError, match="pass an array or a tensor"):
        noise("clip.wav", 1, rng)
    with pytest.raises(ValueError, match=r"pass float32 \(n, samples\)"):
        noise.batch(np.zeros((2, 9)), 1, rngs(2))
    with pytest.raises(ValueError, match="one generator per sample"):
        noise.batch(tones(2), 1, rngs(1))
    with pytest.raises(ValueError, match="choose one of audio"):
        noise.batch(tones(2), 1, rngs(2), family="224")
    with pytest.raises(ValueError, match="shorter than a clip"):
        CORRUPTIONS["enq"](np.ones(21 * RATE, np.float32), 1, rng)
    with pytest.raises(ValueError, match="pass more than 512"):
        stretch(np.zeros(512, np.float32), 1.1)
    with pytest.raises(ValueError, match="at least one recording"):
        noise_from([], name="mine")
    with pytest.raises(ValueError, match="six rows"):
        audio_corruption("five_rows", (1, 2, 3, 4, 5))(lambda waveforms, _: waveforms)


def test_silence_stays_silent():
    silence, sound = np.zeros(800, np.float32), tones(1, 800)[0]
    assert not mix(silence, sound, 5).any()
    assert np.array_equal(mix(sound, silence, 5), sound)
    assert not CORRUPTIONS["white_noise"](silence, 5, rngs(1)[0]).any()


def test_white_noise_has_two_kinds_and_only_the_official_uniform_one_has_a_mean():
    drawn = [draw_white(rng, 4_000) for rng in rngs(40)]
    uniform = [noise for noise in drawn if np.abs(noise).max() <= 0.5]
    assert 10 < len(uniform) < 30
    assert max(abs(noise.mean()) for noise in uniform) < 0.02
    official = [draw_white(rng, 4_000, compat=True) for rng in rngs(40)]
    constant = [noise.mean() ** 2 / np.mean(noise**2) for noise in official if noise.min() >= 0]
    assert len(constant) == len(uniform)
    assert constant == pytest.approx([0.75] * len(uniform), abs=0.02)


@pytest.mark.parametrize("rate", [0.8, 0.92, 1.05, 1.3])
def test_a_stretch_changes_the_length_and_not_the_pitch(rate):
    wave = tones(1, RATE)[0] * np.hanning(RATE).astype(np.float32)
    stretched = stretch(wave, rate)
    assert len(stretched) == round(RATE / rate)
    assert loudest_hz(stretched) == pytest.approx(300, abs=2)
    assert stretched.std() == pytest.approx(wave.std(), rel=0.1)


@pytest.mark.parametrize("semitones", [-7, -4, 0.5, 4, 7])
def test_a_pitch_shift_changes_the_pitch_and_not_the_length(semitones):
    wave = tones(2, RATE)[1] * np.hanning(RATE).astype(np.float32)
    shifted = shift_pitch(wave, semitones)
    assert shifted.shape == wave.shape
    assert loudest_hz(shifted) == pytest.approx(600 * 2 ** (semitones / 12), abs=1)


def test_spectra_go_back_to_their_waveform():
    wave = np.random.default_rng(0).standard_normal(3_333).astype(np.float32)
    assert synthesise(analyse(wave, 512), 3_333) == pytest.approx(wave, abs=1e-4)
    assert stretch_frames(analyse(wave, 512), 1.0) == pytest.approx(analyse(wave, 512), abs=1e-3)


def test_phases_advance_as_angles_do():
    frames = analyse(np.random.default_rng(0).standard_normal(4_000).astype(np.float32), 512).astype(np.complex128)
    rate = 1.2
    positions = np.arange(0, len(frames), rate)
    padded = np.concatenate([frames, np.zeros((2, 257))])
    before = positions.astype(int)
    share = (positions - before)[:, None]
    angles = np.angle(padded)
    advance = np.cumsum(np.concatenate([angles[:1], (angles[before + 1] - angles[before])[:-1]]), axis=0)
    expected = ((1 - share) * np.abs(padded[before]) + share * np.abs(padded[before + 1])) * np.exp(1j * advance)
    assert np.abs(stretch_frames(frames.astype(np.complex64), rate) - expected).max() < 1e-3


def test_the_official_stretch_halves_level_differences():
    time = np.arange(RATE) / RATE
    loud_and_soft = (0.5 * np.sin(2 * np.pi * 500 * time) + 0.05 * np.sin(2 * np.pi * 3000 * time)).astype(np.float32)

    def difference_db(waveform):
        spectrum = np.abs(np.fft.rfft(waveform * np.hanning(len(waveform))))
        bins = (np.array([500, 3000]) * len(waveform) / RATE).astype(int)
        peaks = [spectrum[centre - 20 : centre + 20].max() for centre in bins]
        return 20 * np.log10(peaks[0] / peaks[1])

    assert difference_db(stretch(loud_and_soft, 1.05)) == pytest.approx(20, abs=1)
    official = stretch_compat(loud_and_soft, 1.05, rngs(1)[0])
    assert difference_db(official) == pytest.approx(10, abs=2)
    assert len(official) % 256 == 0
    assert official.std() < 0.5 * loud_and_soft.std()


def test_griffin_lim_finds_a_waveform_with_the_magnitudes():
    wave = tones(1, 8_192)[0]
    magnitudes = np.abs(analyse(wave, 1024))
    rng = np.random.default_rng(0)
    waveform = griffin_lim(magnitudes, rng.random(magnitudes.shape) + 1j * rng.random(magnitudes.shape))
    error = np.abs(analyse(waveform, 1024)) - magnitudes
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(magnitudes)


def test_lengths_fit():
    assert fit_length(np.arange(1, 6, dtype=np.float32), 3).tolist() == [1, 2, 3]
    assert fit_length(np.ones(2, np.float32), 5).tolist() == [0, 1, 1, 0, 0]
