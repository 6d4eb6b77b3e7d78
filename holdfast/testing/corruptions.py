"""Contracts of a corruption: a pure function of sample, severity and generator that keeps shape and type."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import CORRUPTIONS, Corruption
from holdfast.randomness import seeded_rng
from holdfast.testing.contract import contract, sentence_of
from holdfast.testing.global_state import untouched_global_generators

SEVERITIES = (1, 2, 3, 4, 5)


def check_corruption(
    corruption: str | Corruption, samples: NDArray[Any] | None = None, *, ordered: bool = True
) -> None:
    """Run every contract of a corruption and print a line for each; one that fails raises an AssertionError.

    Args:
        corruption: a registered name, or a corruption.
        samples: images, uint8 (n, height, width, 3), or waveforms, float32 (n, samples) at 16 kHz; by default four
            synthetic ones.
        ordered: False for a corruption whose stronger severities do not differ more from the clean sample value by
            value, such as a change of tempo.

    >>> check_corruption("contrast")  # doctest: +ELLIPSIS
    holds: ...
    """
    entry = CORRUPTIONS[corruption] if isinstance(corruption, str) else corruption
    samples = _examples(entry.kind) if samples is None else samples
    kept = samples.copy()
    with contract("No random number is drawn from a global generator."), untouched_global_generators(entry.name):
        corrupted = [_batch(entry, samples, severity) for severity in SEVERITIES]
    with contract("Outputs have the shape and type of the samples, which stay as they are."):
        assert np.array_equal(samples, kept), f"{entry.name} changes the samples that it is given"
        for severity, changed in zip(SEVERITIES, corrupted, strict=True):
            _check_output(entry, samples, changed, severity)
    with contract(sentence_of(_check_severities)):
        _check_severities(entry, samples, corrupted, ordered)
    with contract("The same samples and generators give the same, one by one or in a batch."):
        again = _batch(entry, samples, 3)
        assert np.array_equal(corrupted[2], again), f"{entry.name} differs for the same samples and generators"
        for row, sample in enumerate(samples):
            alone = entry(sample, 3, _rng(row))
            assert np.array_equal(alone, corrupted[2][row]), f"{entry.name} differs for one sample and for a batch"
    with contract("Severities that it does not have are refused."):
        _check_refusals(entry, samples)
    with contract("It has a summary and a citation."):
        assert entry.summary.strip().endswith("."), f"the function behind {entry.name} needs a one-line docstring"
        assert entry.citation, f"{entry.name} has no citation; pass citation=… where it is registered"
    if CORRUPTIONS.name_of(entry) in CORRUPTIONS.names():
        with contract("A pickled copy gives the same."):
            travelled = pickle.loads(pickle.dumps(entry))
            assert np.array_equal(_batch(travelled, samples, 3), corrupted[2]), f"{entry.name} differs after pickling"


def _check_output(entry: Corruption, samples: NDArray[Any], changed: NDArray[Any], severity: int) -> None:
    expected = f"{samples.dtype} {samples.shape}"
    assert changed.shape == samples.shape, f"{entry.name} returned {changed.dtype} {changed.shape} for {expected}"
    assert changed.dtype == samples.dtype, f"{entry.name} returned {changed.dtype} {changed.shape} for {expected}"
    assert np.isfinite(changed).all(), f"{entry.name} returned NaN or infinite values at severity {severity}"
    assert not np.shares_memory(changed, samples), f"{entry.name} returned the memory of its input"


def _check_severities(entry: Corruption, samples: NDArray[Any], corrupted: list[NDArray[Any]], ordered: bool) -> None:
    """Severity 0 changes nothing, every other one something, and the strongest at least as much as the weakest."""
    unchanged = _batch(entry, samples, 0)
    assert np.array_equal(unchanged, samples), f"{entry.name} changes samples at severity 0"
    sample = samples[0]
    assert entry(sample, 0, _rng(0)) is sample, f"{entry.name} does not return the sample at severity 0"
    effects = [float(np.abs(changed.astype(np.float64) - samples).mean()) for changed in corrupted]
    for severity, effect in zip(SEVERITIES, effects, strict=True):
        assert effect > 0, f"{entry.name} changes nothing at severity {severity}"
    weakest, strongest = effects[0], effects[-1]
    assert not ordered or strongest >= weakest, (
        f"{entry.name} changes samples less at severity 5 ({strongest:.3g}) than at severity 1 ({weakest:.3g})"
    )


def _check_refusals(entry: Corruption, samples: NDArray[Any]) -> None:
    for severity in (-1, 5.5, *((2.5,) if entry.whole_severities else ())):
        try:
            _batch(entry, samples, severity)
        except ValueError:
            continue
        raise AssertionError(f"{entry.name} accepts severity {severity}, which it does not have")
    if not entry.whole_severities:
        _batch(entry, samples, 2.5)


def _batch(entry: Corruption, samples: NDArray[Any], severity: float) -> NDArray[Any]:
    return entry.batch(samples, severity, [_rng(row) for row in range(len(samples))])


def _rng(row: int) -> np.random.Generator:
    return seeded_rng(0, "check_corruption", row)


def _examples(kind: str) -> NDArray[Any]:
    """Return four images with edges and texture, or four half seconds of tones with a little noise."""
    rng = seeded_rng(0, "check_corruption/samples")
    if kind == "image":
        y, x = np.mgrid[0:32, 0:32]
        waves = [np.sin(x / rng.uniform(2, 6) + y / rng.uniform(3, 9) + channel) for channel in range(12)]
        images = 120 + 60 * np.stack(waves, axis=-1).reshape(32, 32, 4, 3).transpose(2, 0, 1, 3)
        images[:, 8:20, 10:24] += 40
        return np.asarray(np.rint(images + rng.normal(0, 6, images.shape)).clip(0, 255), np.uint8)
    times = np.arange(8_000) / 16_000
    tones = np.stack([np.sin(2 * np.pi * hertz * times) for hertz in (220, 440, 880, 1_760)])
    return np.asarray(0.3 * tones * np.hanning(8_000) + rng.normal(0, 0.01, tones.shape), np.float32)
