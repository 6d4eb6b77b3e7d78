"""A walk along calibrated transitions: severities change at every step, at nearly constant accuracy."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.randomness import seeded_rng
from holdfast.records import Domain, Picks
from holdfast.streams.plans.domains import domains_named
from holdfast.streams.plans.plan import Plan
from holdfast.streams.walks.transitions import Calibration


class Walk(Plan):
    """The transitions of a calibration, one after the other, repeated until `length` (None: endlessly).

    Every step shuffles the data and takes the first `images_per_step` images, as in the official code (Press et al.,
    NeurIPS 2023): no image repeats within a step, unless the step has more than the data. Batches may cross steps.

    Args:
        calibration: transitions and expected accuracies.
        data_size: number of samples of the data.
        images_per_step: images at each step of a transition.
        length: of the stream, in samples; None: without end.
        seed: of the choice of samples.

    >>> from holdfast.streams.walks.transitions import Transition
    >>> paths = Transition("contrast", "brightness", ((2, 0), (1, 0), (1, 1), (0, 1)), (30.0, 50.0, 40.0, 60.0))
    >>> walk = Walk(Calibration((paths,), 40.0), 100, images_per_step=10)
    >>> walk.picks(10**9 + 19, 10**9 + 21).severities.tolist()
    [[0.25, 0.0], [0.25, 0.25]]
    >>> walk.expected(np.array([0, 15, 45])).tolist()
    [0.3, 0.5, 0.3]
    """

    def __init__(
        self,
        calibration: Calibration,
        data_size: int,
        *,
        images_per_step: int = 1000,
        length: int | None = None,
        seed: int = 43,
    ) -> None:
        if images_per_step < 1 or data_size < 1 or (length is not None and length < 1):
            raise ValueError(
                "images_per_step, the size of the data set and the length must be at least 1, "
                f"got {images_per_step}, {data_size} and {length}"
            )
        self.calibration = calibration
        self.data_size = data_size
        self.images_per_step = self.step_samples = images_per_step
        self.length = length
        self.seed = seed
        pairs = domains_named(f"{entry.first}+{entry.second}" for entry in calibration.transitions)
        self.domains: tuple[Domain, ...] = tuple(dict.fromkeys(pairs))
        self._names = [pair.name for pair in pairs]
        # One row for each step of all transitions.
        self._steps = np.array([len(entry.points) for entry in calibration.transitions])
        self._firsts = self._steps.cumsum() - self._steps
        self.row_domains = np.repeat([self.domains.index(pair) for pair in pairs], self._steps)
        self.row_severities = np.array([point for entry in calibration.transitions for point in entry.points]) / 4
        self.row_expected = np.array([p for entry in calibration.transitions for p in entry.expected_percent]) / 100
        self._passes = -(-images_per_step // data_size)  # through the data in one step
        self._shuffled = lru_cache(maxsize=8)(self._shuffle)

    def picks(self, start: int, stop: int) -> Picks:
        """Return the picks at positions `start` to `stop`."""
        self.check_span(start, stop)
        step, offset = np.divmod(np.arange(start, stop), self.images_per_step)
        pass_, offset = np.divmod(offset, self.data_size)
        shuffle = step * self._passes + pass_
        samples = np.empty(stop - start, np.int64)
        for index in np.unique(shuffle):
            rows = shuffle == index
            samples[rows] = self._shuffled(int(index))[offset[rows]]
        row = self.rows(np.arange(start, stop))
        return Picks(samples, self.row_domains[row], self.row_severities[row])

    def rows(self, positions: NDArray[np.int64], transitions: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the row of each position; with `transitions`, the row on the path of the given transition."""
        step = positions // self.images_per_step
        if transitions is None:
            rows: NDArray[np.int64] = step % len(self.row_expected)
        else:
            rows = self._firsts[transitions] + step % self._steps[transitions]
        return rows

    def expected(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the expected accuracy, between 0 and 1, of the calibrated model at each position."""
        return self.row_expected[self.rows(positions)]

    def spec(self) -> dict[str, Any]:
        """Return target, pairs, points (as "cells") and expected accuracies as plain JSON."""
        calibration = self.calibration
        return {
            "kind": "walk",
            "version": 1,
            "images_per_step": self.images_per_step,
            "length": self.length,
            "target_percent": calibration.target_percent,
            "difficulty": calibration.difficulty,
            "clean_percent": calibration.clean_percent,
            "chance_percent": calibration.chance_percent,
            "path_rule": calibration.path_rule,
            "pairs": "named" if calibration.seed is None else "drawn",
            "left_out": dict(calibration.left_out),
            "transitions": [
                {
                    "domain": name,
                    "cells": [list(point) for point in entry.points],
                    "expected_percent": list(entry.expected_percent),
                }
                for name, entry in zip(self._names, calibration.transitions, strict=True)
            ],
        }

    def protocol(self) -> dict[str, Any]:
        """Return target and rules, without pairs and paths that a seed has drawn."""
        spec = self.spec()
        return {key: value for key, value in spec.items() if key != "transitions" or spec["pairs"] == "named"}

    def __reduce__(self) -> tuple[Callable[..., Walk], tuple[Any, ...]]:
        # Only the arguments are pickled, not the cached orders.
        rebuild = partial(Walk, images_per_step=self.images_per_step, length=self.length, seed=self.seed)
        return rebuild, (self.calibration, self.data_size)

    def _shuffle(self, index: int) -> NDArray[np.int64]:
        return seeded_rng(self.seed, "samples", index).permutation(self.data_size)
