"""An alarm on the error of a network that adapts, without labels of the stream."""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.evidence.sequence import ConfidenceSequence
from holdfast.state import Stateful

ABOVE_ALL = sys.float_info.max  # a threshold that no proxy exceeds; files of states hold finite numbers only


class RiskMonitor(Stateful):
    """Raise an alarm when the running error on a stream has risen above that on source data by more than `tolerated`.

    After Schirmer et al., arXiv 2507.08721: the lower end of a confidence sequence for the running error of the
    networks p₁ … p_t is compared with an upper bound on the error of the source. Without labels of the stream, the
    error is bounded by a proxy u of the loss, such as the entropy: wrong ≥ [u > λ] − [u > λ and right]. The last term
    is measured on held-out source data with labels, by the network that predicts now: `calibrate` also chooses the
    threshold λ whose bound there is largest (ours; the paper's own choice could not be read). The alarm is false with
    probability at most `level` if, for each network, right predictions above λ are not more frequent on the stream than
    on held-out data, and if held-out data are new for each calibration; data that are used again make it approximate. A
    collapse to confident errors is not seen by a proxy that is certain of them.

    Args:
        source_errors: 1 for each wrong and 0 for each right prediction on held-out source data.
        tolerated: by how much the error may rise above that of the source.
        level: largest probability that the alarm is ever false.

    >>> rng = np.random.default_rng(0)
    >>> wrong = rng.random(2000) < 0.1
    >>> proxy = np.where(wrong, 0.7, 0.2) + 0.2 * rng.random(2000)
    >>> monitor = RiskMonitor(wrong, tolerated=0.05, level=0.05)
    >>> monitor.calibrate(proxy, wrong)
    >>> monitor.observe(proxy), monitor.observe(np.full(500, 0.8))
    (False, True)
    """

    threshold: float
    right_above: float

    def __init__(self, source_errors: ArrayLike, *, tolerated: float = 0.05, level: float = 0.05) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        if not 0 <= tolerated < 1:
            raise ValueError(f"tolerated must be at least 0 and below 1, got {tolerated}")
        super().__init__()
        self.tolerated, self.level = tolerated, level
        # A third of the level is for the error on source data, one for the calibration, and one for the stream; of an
        # interval, only one end is used, which alone is wrong with half the probability.
        source = ConfidenceSequence(confidence=1 - 2 * level / 3)
        source.observe(_flags(source_errors).astype(np.float64))
        self.allowed = source.interval().high + tolerated
        self.stream = ConfidenceSequence(confidence=1 - 2 * level / 3, lowest=-1.0, highest=1.0)
        self.add_state("threshold", ABOVE_ALL)
        self.add_state("right_above", 0.0)

    @property
    def low(self) -> float:
        """The lower bound on the running error of the stream so far; -1 before the first sample."""
        return self.stream.interval().low

    def calibrate(self, proxies: ArrayLike, errors: ArrayLike) -> None:
        """Set the threshold from held-out source data, predicted by the network that will see the next samples."""
        values, wrong = np.asarray(proxies, dtype=np.float64).ravel(), _flags(errors)
        if not len(values) or len(values) != len(wrong):
            raise ValueError(f"there must be one error for each proxy, got {len(wrong)} and {len(values)}")
        order = np.argsort(-values, kind="stable")
        values, wrong = values[order], wrong[order]
        ends = np.flatnonzero(np.append(values[1:] < values[:-1], True))  # a threshold cannot split equal values
        caught, right = np.cumsum(wrong)[ends], np.cumsum(~wrong)[ends]
        best = int(np.argmax(caught - right))
        if caught[best] <= right[best]:  # the proxy tells nothing: no sample may count as wrong
            self.threshold, self.right_above = ABOVE_ALL, 0.0
            return
        after = ends[best] + 1
        self.threshold = float(values[ends[best]] + values[after]) / 2 if after < len(values) else -ABOVE_ALL
        slack = math.sqrt(math.log(3 / self.level) / (2 * len(values)))  # Hoeffding's inequality
        self.right_above = min(1.0, float(right[best]) / len(values) + slack)

    def observe(self, proxies: ArrayLike) -> bool:
        """Add the proxies of samples of the stream, in order, and return whether the alarm is raised."""
        values = np.asarray(proxies, dtype=np.float64).ravel()
        if np.isnan(values).any():
            raise ValueError("a proxy is not a number; leave out samples without a prediction")
        self.stream.observe((values > self.threshold) - self.right_above)
        return self.low > self.allowed


def _flags(values: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each prediction was wrong, from booleans or from losses of 0 and 1."""
    flags = np.asarray(values).ravel()
    if not np.isin(flags, (0, 1)).all():
        raise ValueError("an error must be 0 or 1 (or a boolean), one for each sample")
    return flags.astype(np.bool_)
