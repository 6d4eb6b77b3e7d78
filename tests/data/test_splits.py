"""The seeded split of ReefSet."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from holdfast.data import split_by_label


def test_the_split_is_that_of_the_official_code() -> None:
    labels = np.random.default_rng(0).choice(["ambient", "bioph", "bioph_croak", "geoph_waves"], 997)
    train, test = split_by_label(labels)
    official_train, official_test = [], []
    for label in sorted(set(labels)):
        kept, held_out = train_test_split(np.flatnonzero(labels == label), test_size=0.3, random_state=123456)
        official_train += kept.tolist()
        official_test += held_out.tolist()
    assert train.tolist() == official_train
    assert test.tolist() == official_test


def test_every_row_is_used_once_and_every_label_is_tested() -> None:
    labels = ["a"] * 49 + ["b"] * 1 + ["c"] * 100
    train, test = split_by_label(labels)
    assert sorted([*train, *test]) == list(range(150))
    assert [sum(labels[row] == label for row in test) for label in "abc"] == [15, 1, 30]
