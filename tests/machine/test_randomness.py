"""Counter-based generators are independent and reproducible."""

from __future__ import annotations

import numpy as np

from holdfast.randomness import seed_for, seeded_rng


def test_each_key_has_its_own_stream() -> None:
    keys = [(0, "noise", 0), (1, "noise", 0), (0, "noise", 1), (0, "blur", 0)]
    draws = [seeded_rng(*key).random(1000) for key in keys]
    correlations = np.abs(np.corrcoef(draws) - np.eye(4))
    assert correlations.max() < 0.12
    assert len({seed_for(*key) for key in keys}) == 4


def test_neighbours_do_not_meet_however_much_is_drawn() -> None:
    long = seeded_rng(0, "noise", 0).random(200_000)
    assert not np.isin(seeded_rng(0, "noise", 1).random(100), long).any()
