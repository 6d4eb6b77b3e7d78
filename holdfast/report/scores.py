"""Scores in % of error or accuracy: how they compare, and how every table prints them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal

from holdfast.display.cells import Emphasis

Metric = Literal["error", "accuracy"]

SCORES = {  # of offline sets, in words
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "macro_roc_auc": "macro ROC-AUC",
    "silhouette": "silhouette",
}


def percent(accuracy: float, metric: Metric) -> float:
    """Return an accuracy between 0 and 1 as a score in %."""
    return 100 * (1 - accuracy) if metric == "error" else 100 * accuracy


def better(metric: Metric, score: float, other: float) -> bool:
    """Return whether a score beats another one at the precision that is printed; nothing beats `nan`.

    >>> better("error", 12.31, 12.34), better("error", 12.3, 12.4), better("accuracy", 12.3, float("nan"))
    (False, True, False)
    """
    score, other = round(score, 1), round(other, 1)
    return score < other if metric == "error" else score > other


def emphasis_of(metric: Metric, score: float, column: Iterable[float], source: float, *, tied: bool) -> Emphasis:
    """Return the emphasis of a score among those of its column; `tied` with the best is as good, and a gap has none.

    >>> [emphasis_of("error", score, [20.0, 30.0, 50.0], 30.0, tied=False) for score in (20.0, 30.0, 50.0)]
    ['best', '', 'worse']
    """
    if not math.isnan(score) and (tied or not any(better(metric, other, score) for other in column)):
        return "best"
    return "worse" if better(metric, source, score) else ""


def margin_in_words(seeds: int | str) -> str:
    """Return what follows the ±.

    >>> margin_in_words(3), margin_in_words(1)
    ('± standard deviation over 3 seeds', '± standard error by a paired bootstrap over batches (one seed)')
    """
    if seeds == 1:
        return "± standard error by a paired bootstrap over batches (one seed)"
    return f"± standard deviation over {seeds} seeds"


def mean_or_nan(values: Sequence[float]) -> float:
    """Return the mean, `nan` for none."""
    return fmean(values) if values else math.nan
