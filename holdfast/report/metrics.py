"""Metrics of rows; accuracies are shares between 0 and 1, with equal weight for each sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.report.runs import Rows


def accuracy(rows: Rows) -> float:
    """Return the share of correct predictions over all samples."""
    return float(rows.correct.sum() / rows.size.sum())


def domain_accuracy(rows: Rows) -> dict[str, float]:
    """Return the share of correct predictions in each domain, over all its samples."""
    correct = np.bincount(rows.pair_domain, rows.pair_correct)
    samples = np.bincount(rows.pair_domain, rows.pair_samples)
    return dict(zip(rows.domains, (correct / samples).tolist(), strict=True))


def domains_seen(rows: Rows) -> NDArray[np.int64]:
    """Return the number of different domains up to and including each batch."""
    first = np.unique(rows.pair_domain, return_index=True)[1]  # pairs are in the order of their batches
    return np.bincount(rows.pair_batch[first], minlength=len(rows)).cumsum()


def moving_accuracy(rows: Rows, positions: ArrayLike, window_samples: int) -> NDArray[np.float64]:
    """Return the accuracy over the last `window_samples` before each position, or over fewer at the start.

    Correct predictions count as evenly spread within a batch, since a row does not hold their positions.
    """
    return _last(rows, rows.correct, positions, window_samples) / _last(rows, rows.size, positions, window_samples)


def moving_average(
    rows: Rows, values: NDArray[np.float64], positions: ArrayLike, window_samples: int
) -> NDArray[np.float64]:
    """Return the mean of a column over the last `window_samples` before each position; `nan` where none is known."""
    known = np.where(np.isnan(values), 0, rows.size)
    sums = (_last(rows, column, positions, window_samples) for column in (np.nan_to_num(values) * known, known))
    total, samples = sums
    return np.asarray(np.divide(total, samples, out=np.full(len(total), np.nan), where=samples > 0))


def _last(rows: Rows, column: NDArray[Any], positions: ArrayLike, window_samples: int) -> NDArray[np.float64]:
    """Return the sum of a column over the last `window_samples` before each position, or over fewer at the start."""
    ends = np.asarray(positions, np.float64)
    starts = np.maximum(ends - window_samples, rows.position[0])
    edges = np.concatenate([rows.position[:1], rows.ends])
    so_far = np.concatenate([[0], np.cumsum(column)])
    return np.asarray(np.interp(ends, edges, so_far) - np.interp(starts, edges, so_far))


def sample_mean(rows: Rows, values: NDArray[np.float64]) -> float:
    """Return the mean of a column over all samples whose value is known; `nan` for none."""
    known = ~np.isnan(values)
    return float(np.average(values[known], weights=rows.size[known])) if known.any() else float("nan")


def last_accuracy(rows: Rows, share: float) -> float:
    """Return the accuracy over the last share of a run."""
    end = int(rows.ends[-1])
    return float(moving_accuracy(rows, [end], max(1, round(share * (end - int(rows.position[0])))))[0])


def collapse_onset(
    accuracy: NDArray[np.float64], source_accuracy: NDArray[np.float64], least_share: float = 0.05
) -> int | None:
    """Return the index from which a moving accuracy stays below the source's to the end; None if it does not.

    A drop that lasts for less than `least_share` of the positions is ignored.

    >>> collapse_onset(np.array([0.9, 0.3, 0.2, 0.1]), np.array([0.5, 0.5, 0.5, 0.5]))
    1
    """
    above = np.flatnonzero(accuracy >= source_accuracy)
    onset = int(above[-1]) + 1 if len(above) else 0
    return onset if len(accuracy) - onset > least_share * len(accuracy) else None


def passes_per_sample(rows: Rows) -> float:
    """Return forward plus backward passes per sample, without those of estimators, as a multiple of one forward."""
    own = rows.forwards + rows.backwards - np.nan_to_num(rows.estimating)
    return float(np.average(own, weights=rows.size))


def estimating_per_sample(rows: Rows) -> float:
    """Return the forward passes per sample that estimators add."""
    return float(np.average(np.nan_to_num(rows.estimating), weights=rows.size))


def median_step_seconds(rows: Rows) -> float:
    """Return the wall time of the median step."""
    return float(np.median(rows.step_seconds))


def resets(rows: Rows) -> int:
    """Return the number of resets."""
    return sum(reason is not None for reason in rows.recovered)


def skipped_batches(rows: Rows) -> int:
    """Return the number of batches whose update was skipped."""
    return sum(reason is not None for reason in rows.skipped)


def estimate_error(rows: Rows) -> dict[str, float]:
    """Return the mean absolute error of each estimate against the accuracy of its batch (Lee et al., CVPR 2024)."""
    return {name: mean_of_known(np.abs(estimate.value - rows.accuracy)) for name, estimate in rows.estimates.items()}


def estimate_floor(rows: Rows) -> float:
    """Return the error of an estimator that knows the accuracy of every domain.

    A batch of B samples scatters around its accuracy a; the mean distance is about √(2/π) √(a (1 − a) / B).
    """
    by_domain = np.array(list(domain_accuracy(rows).values()))
    expected_correct = np.bincount(rows.pair_batch, by_domain[rows.pair_domain] * rows.pair_samples, len(rows))
    expected = expected_correct / rows.size
    return float(np.mean(np.sqrt(2 / np.pi * expected * (1 - expected) / rows.size)))


def unknown_share(rows: Rows) -> dict[str, float]:
    """Return the share of batches without an estimate."""
    return {name: float(np.isnan(estimate.value).mean()) for name, estimate in rows.estimates.items()}


def interval_coverage(rows: Rows) -> dict[str, float]:
    """Return the share of intervals that hold the accuracy of their batch; `nan` for estimators without intervals."""
    return {
        name: mean_of_known(
            np.where(
                np.isnan(estimate.low + estimate.high),
                np.nan,
                (estimate.low <= rows.accuracy) & (rows.accuracy <= estimate.high),
            )
        )
        for name, estimate in rows.estimates.items()
    }


def interval_width(rows: Rows) -> dict[str, float]:
    """Return the mean width of the intervals; `nan` for estimators without intervals."""
    return {name: mean_of_known(estimate.high - estimate.low) for name, estimate in rows.estimates.items()}


def estimated_gain(rows: Rows) -> dict[str, float]:
    """Return the mean estimated gain over not adapting; `nan` for estimators that do not compare."""
    return {name: mean_of_known(estimate.gain) for name, estimate in rows.estimates.items()}


def mean_of_known(values: NDArray[np.float64]) -> float:
    """Return the mean of the values that are not `nan`."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
