"""Guarantees from a few labels: accuracy and gain over the source, with samples chosen for labelling at random."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.evidence.checks import class_or_none, numbers_within
from holdfast.evidence.line import CorrectionLine
from holdfast.evidence.mean import BoundedMean, Interval
from holdfast.evidence.sampling import coins, label_worth

__all__ = ["LabelAudit", "LabelRequests"]

EVEN_SHARE = 0.25  # of the budget that is spread evenly, so that no rate is near 0 and no weight is large
THRIFT = 4  # how strongly rates correct for earlier ones
STAKES = 9  # powers of two below the budget; one more for each between it and 1


@dataclass(frozen=True)
class LabelRequests:
    """Which samples of a batch to label: their ids, in order, and which of them are wanted at which rate."""

    ids: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    rates: NDArray[np.float64]  # the probability with which each sample was chosen; never 0

    @property
    def wanted_ids(self) -> list[int]:
        """The ids to label."""
        found: list[int] = self.ids[self.wanted].tolist()
        return found


@dataclass(frozen=True)
class _Stretch:
    """Samples in a row that need no label."""

    samples: int = 0
    right: float = 0.0  # sum of the estimated probabilities that the served prediction is right
    differing: int = 0  # how many predictions differ from those of the source
    gained: float = 0.0  # sum of their estimated gains
    lowest_rate: float = 1.0
    lowest_rate_differing: float = 1.0

    def longer(
        self,
        right: NDArray[np.float64],
        gains: NDArray[np.float64],
        rates: NDArray[np.float64],
        differs: NDArray[np.bool_],
    ) -> _Stretch:
        """Return the stretch with more samples at its end."""
        return _Stretch(
            self.samples + len(right),
            self.right + float(right.sum()),
            self.differing + int(differs.sum()),
            self.gained + float(gains.sum()),
            min(self.lowest_rate, float(rates.min(initial=1.0))),
            min(self.lowest_rate_differing, float(rates[differs].min(initial=1.0))),
        )


@dataclass(frozen=True)
class _Request:
    """A sample to label, with the stretch before it."""

    id: int
    served: int
    source: int
    right: float
    gained: float
    rate: float
    before: _Stretch
    label: int | None = None  # None: not yet
    given_up: bool = False
    wrong: bool = False  # the served class is known to be wrong, and the true one is not known

    @property
    def answered(self) -> bool:
        """Whether nothing is waited for any more."""
        return self.label is not None or self.given_up or self.wrong

    @property
    def source_gain(self) -> float:
        """The expected gain if the served class is wrong: minus the chance that the source's class is right."""
        return -min(1.0, max(0.0, self.right - self.gained) / (1 - self.right)) if self.right < 1 else 0.0


class LabelAudit:
    """Bound the accuracy of what was served, and its gain over the source, by labels of a few random samples.

    `serve` flips a coin for each sample, with a higher rate where the outcome is uncertain and where prediction and
    source differ; `feedback` takes the labels, in any order, at any time. Each sample counts with its estimated
    probability of being right, corrected by the labels so far, plus the labelled error of that divided by the rate
    (prediction-powered inference, Angelopoulos et al., Science 2023, with inverse-probability weights). The bounds
    hold at all times at once with probability `confidence`, for any stream, any network and any estimates: the only
    randomness that they need is that of the coins. Good estimates make them narrower.

    The target is the average over the samples served so far, up to the first whose requested label is missing; drift
    is allowed. `window` adds bounds for about the last `window` samples, each of which holds with `confidence` on
    its own. Instead of a label `feedback` takes whether the served class is right (binary feedback, as in BiTTA, Lee et
    al., ICML 2025): the accuracy is bounded as by labels; where the served class is wrong and differs from that of the
    source, the gain counts as -1 in its lower bound and as 0 in its upper one. A label that does not arrive within
    `patience` further samples (None: wait), or that is given as None, counts as wrong in the lower bound and as right
    in the upper one.

    >>> audit = LabelAudit(budget=0.5)
    >>> for _ in range(20):
    ...     asked = audit.serve(served=[3] * 100, source=[7] * 100, right=[0.9] * 100, source_right=[0.1] * 100)
    ...     for id in asked.wanted_ids:
    ...         counted = audit.feedback(id, label=3)
    >>> audit.accuracy().low > 0.95, audit.gain().low > 0.9
    (True, True)
    """

    def __init__(
        self,
        *,
        budget: float = 0.02,
        confidence: float = 0.95,
        gain_weight: float = 0.9,
        window: int | None = None,
        patience: int | None = None,
        seed: int = 0,
    ) -> None:
        if not 0 < budget <= 1:
            raise ValueError(f"budget is the share of samples to label, above 0 and at most 1, got {budget}")
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
        if not 0 <= gain_weight <= 1:
            raise ValueError(f"gain_weight must be between 0 (accuracy only) and 1 (gain only), got {gain_weight}")
        if (window is not None and window < 2) or (patience is not None and patience < 0):
            raise ValueError(f"window must be at least 2 samples and patience at least 0, got {window} and {patience}")
        self.budget, self.confidence, self.gain_weight = budget, confidence, gain_weight
        self.window, self.patience, self.seed = window, patience, seed
        self._served, self._requested, self._worth, self._spent = 0, 0, 0.0, 0.0
        self._waiting: dict[int, _Request] = {}  # in order of their ids
        self._open = _Stretch()
        self._right = CorrectionLine(lowest=0.0, highest=1.0)
        self._gained = CorrectionLine(lowest=-1.0, highest=1.0)
        # Accuracy and gain: of all samples, and of two overlapping windows.
        self._means = [self._fresh() for _ in range(1 if window is None else 3)]

    @property
    def served(self) -> int:
        """The number of samples served."""
        return self._served

    @property
    def requested(self) -> int:
        """The number of labels requested so far."""
        return self._requested

    @property
    def waiting(self) -> list[int]:
        """The ids whose requested labels are missing."""
        return [request.id for request in self._waiting.values() if not request.answered]

    def serve(
        self, *, served: ArrayLike, source: ArrayLike, right: ArrayLike, source_right: ArrayLike
    ) -> LabelRequests:
        """Record a batch and return which samples to label.

        `served` and `source` are the predicted classes; `right` and `source_right` the estimated probabilities that
        these are right, known before any label of the batch.
        """
        now, before = np.atleast_1d(np.asarray(served, np.int64)), np.atleast_1d(np.asarray(source, np.int64))
        sure = numbers_within(right, 0, 1, "the probability of being right")
        source_sure = numbers_within(source_right, 0, 1, "the probability of being right")
        if not now.shape == before.shape == sure.shape == source_sure.shape:
            raise ValueError(
                "served, source, right and source_right must have one value for each sample, got "
                f"{now.shape}, {before.shape}, {sure.shape} and {source_sure.shape}"
            )
        differs = now != before
        first, gains = self._served, np.where(differs, sure - source_sure, 0.0)
        rates = self._rates(label_worth(sure, source_sure, differs, self.gain_weight))
        wanted = coins(self.seed, first, len(now)) < rates
        start = 0
        for end in (*np.flatnonzero(wanted).tolist(), len(now)):
            part = slice(start, end)
            self._open = self._open.longer(sure[part], gains[part], rates[part], differs[part])
            if end < len(now):
                classes, estimates = (int(now[end]), int(before[end])), (float(sure[end]), float(gains[end]))
                self._waiting[first + end] = _Request(first + end, *classes, *estimates, float(rates[end]), self._open)
                self._open = _Stretch()
            start = end + 1
        self._served, self._requested = first + len(now), self._requested + int(wanted.sum())
        self._settle()
        return LabelRequests(first + np.arange(len(now)), wanted, rates)

    def feedback(self, sample_id: int, label: int | None = None, *, correct: bool | None = None) -> bool:
        """Take the label of a sample, or whether its prediction is `correct`; neither says that it cannot be had.

        Returns whether it counts. Only requested labels count, and only once: those that someone chose to give are not
        a random sample.
        """
        label = class_or_none(label, correct)
        if not 0 <= sample_id < self._served:
            raise ValueError(f"no sample has the id {sample_id}; {self._served} samples were served, from 0 on")
        request = self._waiting.get(sample_id)
        if request is None or request.answered:
            return False
        label = request.served if correct else label
        wrong = correct is False
        self._waiting[sample_id] = replace(request, label=label, wrong=wrong, given_up=label is None and not wrong)
        self._settle()
        return True

    def accuracy(self, *, recent: bool = False) -> Interval:
        """Return the bounds of the accuracy of what was served, over all samples or about the last `window`."""
        return self._chosen(recent)[0].interval(self.confidence, 0.0, 1.0)

    def gain(self, *, recent: bool = False) -> Interval:
        """Return the bounds of that accuracy minus the accuracy of the source on the same samples."""
        return self._chosen(recent)[1].interval(self.confidence, -1.0, 1.0)

    @property
    def state(self) -> dict[str, Any]:
        """All that changes, as new dictionaries and lists; assign an earlier one to return to it exactly."""
        return {
            "served": self._served,
            "requested": self._requested,
            "worth": self._worth,
            "spent": self._spent,
            "waiting": [asdict(request) for request in self._waiting.values()],
            "open": asdict(self._open),
            "lines": [line.state for line in (self._right, self._gained)],
            "means": [mean.state for pair in self._means for mean in pair],
        }

    @state.setter
    def state(self, earlier: Mapping[str, Any]) -> None:
        if earlier.keys() != self.state.keys():
            raise ValueError(f"the state of an audit has {sorted(self.state)}, got {sorted(earlier)}")
        self._served, self._requested = int(earlier["served"]), int(earlier["requested"])
        self._worth, self._spent = earlier["worth"], earlier["spent"]
        requests = [_Request(**{**request, "before": _Stretch(**request["before"])}) for request in earlier["waiting"]]
        self._waiting = {request.id: request for request in requests}
        self._open = _Stretch(**earlier["open"])
        for line, sums in zip((self._right, self._gained), earlier["lines"], strict=True):
            line.state = sums
        for mean, sums in zip([mean for pair in self._means for mean in pair], earlier["means"], strict=True):
            mean.state = sums

    def _fresh(self) -> tuple[BoundedMean, BoundedMean]:
        """Return the means of accuracy and gain over no samples."""
        stakes = STAKES + math.ceil(-math.log2(self.budget))
        return BoundedMean(largest=0.9, stakes=stakes), BoundedMean(largest=0.45, stakes=stakes)

    def _chosen(self, recent: bool) -> tuple[BoundedMean, BoundedMean]:
        if recent and self.window is None:
            raise ValueError("there are no recent bounds without a window; pass window= to LabelAudit")
        return self._means[1 if recent else 0]

    def _rates(self, worth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of choosing the samples of a batch: on average the budget."""
        # Samples become more or less uncertain over time: what was spent so far decides on what comes.
        thrift = min(max((self.budget * self._served / self._spent) ** THRIFT, 0.5), 2.0) if self._spent else 1.0
        self._worth += float(worth.sum())
        typical = self._worth / max(1, self._served + len(worth)) or 1.0
        rates: NDArray[np.float64] = np.minimum(
            1.0, thrift * self.budget * (EVEN_SHARE + (1 - EVEN_SHARE) * worth / typical)
        )
        self._spent += float(rates.sum())
        return rates

    def _settle(self) -> None:
        """Count samples in their order, up to the first whose label is missing."""
        while self._waiting:
            request = next(iter(self._waiting.values()))
            overdue = self.patience is not None and self._served - request.id > self.patience
            if not request.answered and not overdue:
                return
            del self._waiting[request.id]
            self._count_stretch(request.before)
            self._count_labelled(request)
        self._count_stretch(self._open)
        self._open = _Stretch()

    def _count_stretch(self, stretch: _Stretch) -> None:
        if not stretch.samples:
            return
        offset, slope = self._right.coefficients
        right = offset * stretch.samples + slope * stretch.right
        offset, slope = self._gained.coefficients
        gained = offset * stretch.differing + slope * stretch.gained
        for accuracy, gain in self._means:
            accuracy.bets.allow(-1 / stretch.lowest_rate, 1 / stretch.lowest_rate)
            accuracy.count(stretch.samples, right, right)
            if stretch.differing:
                gain.bets.allow(-2 / stretch.lowest_rate_differing, 2 / stretch.lowest_rate_differing)
            gain.count(stretch.samples, gained, gained)
        self._turn_window()

    def _count_labelled(self, request: _Request) -> None:
        differs = request.served != request.source
        expected = self._right.at(request.right)
        gained = self._gained.at(request.gained) if differs else 0.0
        known = request.label is not None or request.wrong
        right = float(request.served == request.label)
        gain = request.source_gain if request.wrong else right - float(request.source == request.label)
        rights = (right, right) if known else (0.0, 1.0)
        gains = (0.0, 0.0) if not differs else (-1.0, 0.0) if request.wrong else (gain, gain) if known else (-1.0, 1.0)
        for accuracy_mean, gain_mean in self._means:
            accuracy_mean.bets.allow(-1 / request.rate, 1 / request.rate)
            accuracy_mean.bets.add_between(*((value - expected) / request.rate for value in rights))
            error = (right - expected) / request.rate if known else 0.0
            accuracy_mean.count(1, expected + error, expected)
            if differs:
                gain_mean.bets.allow(-2 / request.rate, 2 / request.rate)
                gain_mean.bets.add_between(*((value - gained) / request.rate for value in gains))
            error = (gain - gained) / request.rate if known and differs else 0.0
            gain_mean.count(1, gained + error, gained)
        if known:
            weight = self.budget / request.rate
            self._right.add(request.right, right, weight)
            if differs:
                self._gained.add(request.gained, gain, weight)
        self._turn_window()

    def _turn_window(self) -> None:
        """Drop the older of the two windows when it is full; the newer starts when that is half full."""
        if self.window is None:
            return
        _, (older, _), (newer, _) = self._means
        if older.samples >= self.window:
            self._means[1:] = [self._means[2], self._fresh()]
        elif older.samples < self.window / 2 and newer.samples:
            self._means[2] = self._fresh()
