"""Regression test: every corruption of a small synthetic image gives the stored pixels, with legacy draws.

`python tests/corruptions/test_corruption_regression.py` writes `regression.npz`; it was run after the same code had
passed the comparison with the reference functions in `test_corruption_golden.py`. Run it again when a corruption is
added; pixels that are already stored are kept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.corruptions import CORRUPTIONS

FILE = Path(__file__).with_name("regression.npz")
STEPS = [("32", 2.5), ("32", 5), ("64", 5), ("224", 2), ("224", 4.75), ("224", 5)]  # family, severity
CASES = [
    (name, family, severity)
    for name in CORRUPTIONS.names("image")
    for family, severity in STEPS
    if severity == int(severity) or not CORRUPTIONS[name].whole_severities
]


def synthetic_image():
    y, x = np.mgrid[0:16, 0:24]
    ramps = np.stack([11 * x, 16 * y, 7 * (x + y)], axis=-1) % 256  # one to each channel, some with a hard edge
    ramps[3:8, 4:11] = (250, 30, 30)
    ramps[9:14, 12:21] = 128
    return ramps.astype(np.uint8)


def corrupted(name, family, severity):
    rng = np.random.RandomState(0)
    return CORRUPTIONS[name](synthetic_image(), severity, rng, family=family)


@pytest.mark.parametrize(("name", "family", "severity"), CASES)
def test_pixels_are_those_of_the_verified_version(name, family, severity):
    key = f"{name}/{family}/{severity}"
    with np.load(FILE) as stored:
        assert key in stored, f"{FILE} has no pixels of {name!r}: run `python {Path(__file__).name}` in {FILE.parent}"
        difference = np.abs(corrupted(name, family, severity).astype(int) - stored[key])
    # Another processor may round a float the other way, which truncation turns into one level.
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.01


def test_the_stored_pixels_stay_small():
    assert FILE.stat().st_size < 150_000


if __name__ == "__main__":
    kept = dict(np.load(FILE)) if FILE.exists() else {}
    fresh = {"/".join(map(str, case)): corrupted(*case) for case in CASES}
    np.savez_compressed(FILE, **(fresh | {key: kept[key] for key in fresh.keys() & kept.keys()}))
