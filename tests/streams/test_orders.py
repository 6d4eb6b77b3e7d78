from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.registry import UnknownNameError
from holdfast.streams import ORDERS, Correlated, Order, Shuffled, Sorted
from holdfast.streams.plans.orders import Drifting, SingleClass, order_named

LABELS = np.random.default_rng(3).integers(0, 10, 2000)


def arranged(order: Order, labels: NDArray[np.int64] = LABELS, seed: int = 0) -> NDArray[np.int64]:
    return labels[order.arrange(labels, np.random.default_rng(seed))]


def runs(labels: NDArray[np.int64]) -> int:
    """Return the number of runs of one label."""
    return 1 + int(np.sum(labels[1:] != labels[:-1]))


def stays(labels: NDArray[np.int64]) -> float:
    """Return how often a label is followed by itself."""
    return float(np.mean(labels[1:] == labels[:-1]))


@pytest.mark.parametrize("name", list(ORDERS))
def test_every_order_is_a_permutation_that_repeats_with_its_seed(name: str) -> None:
    order = order_named(name)
    for labels in (LABELS, LABELS[:1], np.full(7, 4)):
        arrangement = order.arrange(labels, np.random.default_rng(1))
        assert np.array_equal(np.sort(arrangement), np.arange(len(labels)))
        assert np.array_equal(arrangement, order.arrange(labels, np.random.default_rng(1)))
    assert not np.array_equal(
        order.arrange(LABELS, np.random.default_rng(1)), order.arrange(LABELS, np.random.default_rng(2))
    )


def test_shuffled_labels_stay_by_chance_only() -> None:
    assert stays(arranged(Shuffled())) == pytest.approx(0.1, abs=0.03)


def test_sorted_goes_class_after_class() -> None:
    assert np.array_equal(arranged(Sorted()), np.sort(LABELS))


def test_correlated_comes_in_bursts_in_every_part_of_the_block() -> None:
    labels = arranged(Correlated(concentration=0.1))
    assert stays(labels) > 0.9
    # A small concentration leaves a window of 64 few classes; 64 shuffled labels hold all ten.
    windows = labels[: 2000 // 64 * 64].reshape(-1, 64)
    assert np.mean([len(np.unique(window)) for window in windows]) < 4


def test_correlated_bursts_are_the_slots_of_a_dirichlet() -> None:
    """With one slot each class comes once; with more slots, and a large concentration, once in each slot."""
    assert runs(arranged(Correlated(slots=1))) == 10
    even = arranged(Correlated(concentration=1e6, slots=4))
    assert 10 * 4 - 3 <= runs(even) <= 10 * 4  # the last class of a slot may be the first one of the next
    shares = np.stack([np.bincount(slot, minlength=10) for slot in np.array_split(even, 4)])
    assert np.abs(shares - np.bincount(LABELS) / 4).max() <= 12
    assert len({tuple(dict.fromkeys(slot)) for slot in np.array_split(even, 4)}) == 4  # each slot its own order


def test_a_small_concentration_puts_a_class_into_few_slots() -> None:
    """The share of a class in its largest of ten slots: 0.1 at most for an even split, 1 for a single slot."""
    labels = np.repeat(np.arange(200), 100)

    def largest_share(concentration: float) -> float:
        # Far more classes than slots: a slot is about a tenth of the stream.
        order = arranged(Correlated(concentration=concentration, slots=10), labels)
        first_of_runs = np.flatnonzero(np.diff(order, prepend=-1))
        sizes = np.diff(first_of_runs, append=len(order))
        return float(np.mean([sizes[order[first_of_runs] == c].max() / 100 for c in range(200)]))

    assert largest_share(0.01) > 0.9
    # E[max of Dirichlet(0.1 × ten)] = 0.666 and of Dirichlet(10 × ten) = 0.154, by simulation with 10**5 draws
    assert largest_share(0.1) == pytest.approx(0.666, abs=0.05)
    assert largest_share(10) == pytest.approx(0.154, abs=0.02)


def test_large_concentration_and_many_slots_are_nearly_independent() -> None:
    labels = arranged(Correlated(concentration=1e6, slots=len(LABELS) // 10))
    assert stays(labels) < 0.15
    assert np.mean([len(np.unique(window)) for window in labels[:1984].reshape(-1, 64)]) > 9.9


def test_single_classes_come_in_whole_runs_and_their_rests_at_the_end() -> None:
    labels = np.repeat([0, 1, 2], [6, 5, 4])
    for seed in range(10):
        order = arranged(SingleClass(run=4), labels, seed)
        assert runs(order[:12]) <= 3
        assert [len(set(run)) for run in order[:12].reshape(3, 4)] == [1, 1, 1]
        assert sorted(order[12:]) == [0, 0, 1]


def test_drifting_time_runs_in_a_circle() -> None:
    labels = np.repeat(np.arange(10), 100)
    order = arranged(Drifting(spread=0.02), labels)
    (first,) = set(order[:20])  # its time is 0, so that half of it comes at the end
    assert np.mean(order[-20:] == first) == 1
    assert np.mean(order[200:800] == first) == 0


def test_wrong_options_are_refused_with_the_remedy() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'correlated'"):
        order_named("corelated")
    with pytest.raises(UnknownNameError, match=r"^order 'shuffled' has no option 'slots'"):
        order_named("shuffled", slots=3)
    with pytest.raises(ValueError, match="concentration of order 'correlated' must be a number above 0, got 0"):
        Correlated(concentration=0)
    with pytest.raises(ValueError, match="slots of order 'correlated' must be a whole number from 1 to"):
        Correlated(slots=0)
