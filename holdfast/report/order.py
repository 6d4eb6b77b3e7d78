"""How sure the order of recipes is: a paired bootstrap over blocks of batches and seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.report.runs import RunRecord

RESAMPLES = 1000
MOST_BLOCKS = 200  # of neighbouring batches, whose errors depend on each other, in each run
LEVEL = 0.95


@dataclass(frozen=True)
class Standing:
    """One recipe against the best one: the difference of accuracies, its interval, and how often it is the best."""

    difference: float  # best minus this one, in points
    low: float  # of the interval
    high: float
    first: float  # share of the resamples in which it is the best; ties are shared

    @property
    def tied(self) -> bool:
        """Whether the data do not tell it from the best."""
        return self.low <= 0


def standings(recipes: Sequence[Sequence[RunRecord]], best: int) -> list[Standing] | None:
    """Return the standing of each recipe against the best one; None if they have no batches in common.

    Each resample draws seeds, then blocks of batches within them, the same for all recipes.
    """
    known = [{run.manifest.seed: run for run in reversed(runs)} for runs in recipes]
    seeds = sorted(set.intersection(*map(set, known)))
    by_seed = [[runs[seed] for runs in known] for seed in seeds]
    if not seeds or any(
        not np.array_equal(run.rows.position, runs[0].rows.position) for runs in by_seed for run in runs
    ):
        return None
    blocks = [_blocks(runs) for runs in by_seed]
    draws = np.random.default_rng(0)
    times = draws.multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), RESAMPLES)
    correct = np.zeros((RESAMPLES, len(recipes)))
    samples = np.zeros((RESAMPLES, 1))
    for drawn, counts in zip(times.T, blocks, strict=True):
        number = len(counts)
        weights = draws.multinomial(drawn * number, np.full(number, 1 / number))
        correct += weights @ counts[:, 1:]
        samples += weights @ counts[:, :1]
    scores = 100 * correct / samples
    lead = scores[:, [best]] - scores
    low, high = np.quantile(lead, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    whole = np.sum([counts.sum(0) for counts in blocks], axis=0)
    means = 100 * whole[1:] / whole[0]
    top = scores == scores.max(axis=1, keepdims=True)
    winners = (top / top.sum(axis=1, keepdims=True)).mean(axis=0)  # recipes that tie for the best share it
    return [
        Standing(float(means[best] - mean), float(lowest), float(highest), float(share))
        for mean, lowest, highest, share in zip(means, low, high, winners, strict=True)
    ]


def bootstrap_error(run: RunRecord) -> float:
    """Return the standard error of a run's accuracy, in points, from resampled blocks of batches; `nan` for one block.

    The draws are the same for all runs with as many batches, so that recipes are resampled in pairs.
    """
    counts = _blocks([run])
    number = len(counts)
    if number < 2:
        return math.nan
    weights = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), RESAMPLES)
    drawn = weights @ counts
    return round(float(100 * (drawn[:, 1] / drawn[:, 0]).std(ddof=1)), 9)  # equal batches have none


def _blocks(runs: Sequence[RunRecord]) -> NDArray[np.float64]:
    """Return samples and correct predictions of every recipe in each block, (blocks, 1 + recipes)."""
    columns = np.stack([runs[0].rows.size, *(run.rows.correct for run in runs)], axis=1).astype(np.float64)
    starts = np.unique(np.linspace(0, len(columns), min(len(columns), MOST_BLOCKS), endpoint=False).astype(np.int64))
    return np.asarray(np.add.reduceat(columns, starts, axis=0))
