"""The temperature of a network's logits, at which its probabilities mean what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.randomness import seeded_rng

SMALLEST, LARGEST = 0.05, 50.0  # temperatures
FOLDS, SHUFFLES = 5, 4
EXTRA_LABELS = 0.5
EXCESS, EXCESS_ERROR = 0.04, 0.04  # of agreement over accuracy on source data; measured, see docs/evidence.md
RIGHT_ALONE, RIGHT_ALONE_ERROR = 0.3, 0.3  # share of predictions that are right where two views differ, likewise
MISFIT = 0.05  # of a temperature by mean confidence alone; as large as the error that labels show where it is large
VIEWS, VIEWS_AGREEING = 5.0, 0.8  # samples that the start counts for, and how many of them agree
SUREST = 0.98
DOUBTFUL = 0.15  # difference of confidence and agreement; at most 0.10 at a good temperature, measured likewise


@dataclass(frozen=True)
class Temperature:
    """A temperature, and by how much the mean confidence at it is off: one standard deviation, without shift."""

    temperature: float  # by which logits are divided
    error: float  # of the mean confidence at this temperature, a share between 0 and 1


def temperature_from_labels(logits: ArrayLike, labels: ArrayLike) -> Temperature:
    """Fit the temperature to labelled logits, (samples, classes), by cross-entropy (Guo et al., ICML 2017).

    The error is the standard error of the accuracy that was fitted, and the differences between mean confidence and
    accuracy on five folds, each at the temperature fitted to the others, as far as sampling does not explain them.

    Args:
        logits: of held-out samples, (samples, classes).
        labels: index of the true class of each sample.

    >>> logits = np.array([[1.0, 0.0]] * 400)
    >>> fitted = temperature_from_labels(logits, [0, 0, 0, 1] * 100)
    >>> round(fitted.temperature, 2), round(fitted.error, 2)  # 1 / ln 3
    (0.91, 0.02)
    """
    rows, truth = _checked(logits), np.asarray(labels, np.int64)
    if truth.shape != rows.shape[:1]:
        raise ValueError(f"there must be one label for each row of logits, got {truth.shape} for {rows.shape}")
    if truth.min() < 0 or truth.max() >= rows.shape[1]:
        raise ValueError(f"labels must be between 0 and {rows.shape[1] - 1}, got {truth.min()} to {truth.max()}")
    right = rows.argmax(1) == truth
    accuracy = (right.sum() + 1) / (len(right) + 2)
    variance = accuracy * (1 - accuracy) / len(right) + _miscalibration(rows, truth, right)
    return Temperature(_temperature(rows, truth), math.sqrt(variance))


def temperature_from_agreement(logits: ArrayLike, others: ArrayLike) -> Temperature | None:
    """Estimate the temperature of `logits` from how often another view of the same network predicts the same class.

    Both are for unlabelled source samples; `others` comes from the network with other statistics, such as the anchor.
    Errors of the two coincide in part, so agreement exceeds accuracy, by 0 to 7 points on the networks that were
    measured. This is an estimate, and on shifted samples not even a good one. None (unknown) if all predictions agree:
    a perfect network and one that the other statistics do not change look the same; or if logits are so flat, or so far
    apart, that no temperature gives such a confidence.

    Args:
        logits: of unlabelled source samples, (samples, classes), whose temperature is wanted.
        others: of another view of the same network, for the same samples.

    >>> fitted = temperature_from_agreement([[1.0, 0.0]] * 48, [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]] * 12)
    >>> fitted is not None and 0.9 < fitted.temperature < 1.2 and fitted.error > 0.07
    True
    >>> temperature_from_agreement([[1.0, 0.0]], [[1.0, 0.0]])
    """
    rows, rest = _paired(logits, others)
    agreement = float((rows.argmax(1) == rest.argmax(1)).mean())
    if agreement == 1 or agreement - EXCESS <= 1 / rows.shape[1]:
        return None
    try:
        fitted = temperature_from_accuracy(rows, agreement - EXCESS)
    except ValueError:
        return None
    return Temperature(fitted.temperature, math.hypot(fitted.error, EXCESS_ERROR))


def temperature_from_stream(logits: ArrayLike, agreed: ArrayLike, clean_accuracy: float | None = None) -> Temperature:
    """Estimate the temperature from samples of any stream, and whether another view predicts the same class for each.

    `logits` are the anchor's. Where the source agrees they are taken to be right, and elsewhere in 30 % of cases,
    give or take 30: that is the error. It is large, too, when most samples are predicted to be of one class: views that
    know nothing agree on that. A known `clean_accuracy` is an upper bound, because a shift does not help.

    Args:
        logits: of the anchor, (samples, classes).
        agreed: whether the source predicts the same class, sample by sample.
        clean_accuracy: of the source without a shift, between 0 and 1; None: unknown.

    >>> fitted = temperature_from_stream([[1.0, 0.0]] * 64, [1, 1, 1, 0] * 16)
    >>> round(fitted.temperature, 2), round(fitted.error, 2)
    (0.64, 0.51)
    """
    rows, same = _checked(logits), np.asarray(agreed, np.float64)
    if same.shape != rows.shape[:1]:
        raise ValueError(f"there must be one agreement for each row of logits, got {same.shape} for {rows.shape}")
    agreement = float(same.sum() + VIEWS * VIEWS_AGREEING) / (len(same) + VIEWS)
    target = agreement + RIGHT_ALONE * (1 - agreement)
    highest = SUREST if clean_accuracy is None else min(SUREST, clean_accuracy)
    target = min(max(target, 1.01 / rows.shape[1]), highest)
    sampling = math.sqrt(agreement * (1 - agreement) / (len(same) + VIEWS))
    chance = float(np.square(np.bincount(rows.argmax(1)) / len(rows)).sum())  # of two samples in one class
    error = math.hypot(EXCESS_ERROR, RIGHT_ALONE_ERROR * (1 - agreement), sampling, max(0.0, chance - 0.5))
    try:
        return Temperature(temperature_from_accuracy(rows, target).temperature, error)
    except ValueError:  # logits so flat or so far apart that no temperature gives this confidence
        return Temperature(1.0, 1.0)


def temperature_doubt(logits: ArrayLike, others: ArrayLike, temperature: float) -> str | None:
    """Return why a temperature cannot be right, or None: confidence is far from the agreement of two views.

    `logits` are those of the source and `others` those of the anchor, for at least 64 samples of any stream, shifted or
    not. No doubt does not mean that the temperature is right.

    Args:
        logits: of the source, (samples, classes).
        others: of the anchor, for the same samples.
        temperature: that is in doubt.

    >>> temperature_doubt([[1.0, 0.0]] * 64, [[1.0, 0.0]] * 64, temperature=1.75)
    'confidence is 64 % and agreement 100 % at temperature 1.75'
    >>> temperature_doubt([[1.0, 0.0]] * 64, [[1.0, 0.0]] * 64, temperature=0.5)
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    rows, rest = _paired(logits, others)
    sure, agreement = float(_confidences(rows, temperature).mean()), float((rows.argmax(1) == rest.argmax(1)).mean())
    if abs(sure - agreement) <= DOUBTFUL:
        return None
    return f"confidence is {100 * sure:.0f} % and agreement {100 * agreement:.0f} % at temperature {temperature:g}"


def _miscalibration(rows: NDArray[np.float64], labels: NDArray[np.int64], right: NDArray[np.bool_]) -> float:
    """Return the variance of mean confidence minus accuracy over held-out folds, beyond that of sampling."""
    if len(rows) < 2 * FOLDS:
        return 0.0
    squares, expected = [], []
    for turn in range(FOLDS * SHUFFLES):
        order, fold = seeded_rng(0, "folds", turn // FOLDS).permutation(len(rows)), turn % FOLDS
        held, rest = order[fold::FOLDS], np.delete(order, slice(fold, None, FOLDS))
        sure = _confidences(rows[held], _temperature(rows[rest], labels[rest]))
        squares.append((sure.mean() - right[held].mean()) ** 2)
        expected.append((sure * (1 - sure)).mean() * (1 / len(held) + 1 / len(rest)))
    # One standard error above what sampling explains: few labels do not show more.
    return max(0.0, float(np.mean(squares) - (1 + math.sqrt(2 / FOLDS)) * np.mean(expected)))


def temperature_from_accuracy(logits: ArrayLike, accuracy: float, source: ArrayLike | None = None) -> Temperature:
    """Return the temperature at which the mean confidence of unlabelled source samples is a known accuracy.

    With `source`, logits of another view for the same samples, the accuracy is that of the other view, which is taken
    to be right more often where the two differ, by 30 % of these samples, give or take 30; and nothing shows how well
    confidence fits single samples, so the error is larger than that of labels.

    Args:
        logits: of unlabelled source samples, (samples, classes).
        accuracy: the known accuracy, between 0 and 1.
        source: logits of the view whose accuracy is known; None: `logits` themselves.

    >>> fitted = temperature_from_accuracy([[1.0, 0.0]] * 48, accuracy=0.75)
    >>> round(fitted.temperature, 2), round(fitted.error, 4)
    (0.91, 0.0625)
    >>> fitted = temperature_from_accuracy([[1.0, 0.0]] * 48, 0.75, source=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]] * 16)
    >>> round(fitted.temperature, 2), round(fitted.error, 4)
    (1.62, 0.1313)
    """
    rows = _checked(logits)
    if not 1 / rows.shape[1] < accuracy < 1:
        raise ValueError(
            f"the known accuracy must be between chance, {1 / rows.shape[1]:.3g}, and 1 (a share, not percent), "
            f"got {accuracy}"
        )
    if source is not None:
        rows, others = _paired(logits, source)
        differ = float((rows.argmax(1) != others.argmax(1)).mean())
        fitted = temperature_from_accuracy(rows, max(accuracy - RIGHT_ALONE * differ, 1.01 / rows.shape[1]))
        return Temperature(fitted.temperature, math.hypot(fitted.error, MISFIT, RIGHT_ALONE_ERROR * differ))

    def excess(log_temperature: float) -> float:
        return float(_confidences(rows, math.exp(log_temperature)).mean()) - accuracy

    ends = math.log(SMALLEST), math.log(LARGEST)
    if not excess(ends[0]) > 0 > excess(ends[1]):
        raise ValueError(
            f"no temperature between {SMALLEST} and {LARGEST} gives a mean confidence of {accuracy:.3g}; pass "
            "logits, and held-out labels if they are so flat or so far apart"
        )
    from scipy.optimize import brentq  # here, because importing it takes long

    return Temperature(math.exp(brentq(excess, *ends)), math.sqrt(accuracy * (1 - accuracy) / len(rows)))


def _paired(logits: ArrayLike, others: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows, rest = _checked(logits), _checked(others)
    if rows.shape != rest.shape:
        raise ValueError(f"both logits must be for the same samples and classes, got {rows.shape} and {rest.shape}")
    return rows, rest


def _checked(logits: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(logits, np.float64)
    if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] < 2:
        raise ValueError(f"logits must be (samples, classes), at least (1, 2), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("logits must be finite, got inf or nan; leave out such samples")
    return rows


def _confidences(rows: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return the largest probability of each row."""
    largest: NDArray[np.float64] = 1 / np.exp((rows - rows.max(1, keepdims=True)) / temperature).sum(1)
    return largest


def _temperature(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the temperature that minimises cross-entropy, with half a label more: an error, by the runner-up.

    Without it, held-out samples that are all classified correctly would call for a temperature of zero.
    """
    centred = rows - rows.max(1, keepdims=True)
    runners_up = np.partition(centred, -2, axis=1)[:, -2]
    chosen = centred[np.arange(len(labels)), labels].sum() + EXTRA_LABELS * runners_up.mean()

    def cross_entropy(log_temperature: float) -> float:
        inverse = math.exp(-log_temperature)
        normaliser = np.log(np.exp(centred * inverse).sum(1))
        return float(normaliser.sum() + EXTRA_LABELS * normaliser.mean() - chosen * inverse)

    from scipy.optimize import minimize_scalar  # here, because importing it takes long

    minimum = minimize_scalar(cross_entropy, bounds=(math.log(SMALLEST), math.log(LARGEST)), method="bounded")
    return math.exp(float(minimum.x))
