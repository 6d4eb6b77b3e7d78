"""Guarantees from a few labels: accuracy and gain over the source, with samples chosen for labelling at random."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.evidence.checks import class_or_none, numbers_within
from holdfast.evidence.line import CorrectionLine
from holdfast.evidence.mean import BoundedMean, Interval
from holdfast.evidence.sampling import coins, label_worth
from holdfast.state import Stateful, put_back, snapshot_of

EVEN_SHARE = 0.25  # of the budget that is spread evenly, so that no rate is near 0 and no weight is large
THRIFT = 4  # how strongly rates correct for earlier ones
STAKES = 9  # powers of two below the budget; one more for each between it and 1


@dataclass(frozen=True)
class LabelRequests:
    """Which samples of a batch to label: their ids, in order, and which of them are wanted at which rate."""

    ids: NDArray[np.int64]  # of the samples, for `feedback`
    wanted: NDArray[np.bool_]  # whether the label of each sample is wanted
    rates: NDArray[np.float64]  # the probability with which each sample was chosen; never 0

    @property
    def wanted_ids(self) -> list[int]:
        """The ids to label."""
        wanted: list[int] = self.ids[self.wanted].tolist()
        return wanted


@dataclass(frozen=True)
class _Unasked:
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
    ) -> _Unasked:
        """Return the stretch with more samples at its end."""
        return _Unasked(
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
    before: _Unasked
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


class _Means(Stateful):
    """Means of accuracy and gain over the same samples."""

    def __init__(self, stakes: int) -> None:
        super().__init__()
        self.accuracy = BoundedMean(largest=0.9, stakes=stakes)
        self.gain = BoundedMean(largest=0.45, stakes=stakes)


class LabelAudit(Stateful):
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

    Args:
        budget: share of the samples for which a label is requested, on average.
        confidence: probability that the bounds hold at all times.
        gain_weight: how labels are divided between the two targets, from 0 (accuracy) to 1 (gain).
        window: number of recent samples with bounds of their own; None: no such bounds.
        patience: samples after which a missing label counts as missing; None: wait for it.
        seed: of the coins; it must not be known to those who choose the inputs.

    >>> audit = LabelAudit(budget=0.5)
    >>> for _ in range(20):
    ...     asked = audit.serve(served=[3] * 100, source=[7] * 100, right=[0.9] * 100, source_right=[0.1] * 100)
    ...     for id in asked.wanted_ids:
    ...         counted = audit.feedback(id, label=3)
    >>> audit.accuracy().low > 0.95, audit.gain().low > 0.9
    (True, True)
    """

    served: int
    requested: int
    worth: float
    spent: float
    requests: dict[int, _Request]
    open: _Unasked

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
        super().__init__()
        self.budget, self.confidence, self.gain_weight = budget, confidence, gain_weight
        self.window, self.patience, self.seed = window, patience, seed
        self.add_state("served", 0)  # samples
        self.add_state("requested", 0)  # labels
        self.add_state("worth", 0.0)
        self.add_state("spent", 0.0)
        self.add_state("requests", {})  # by id, in their order
        self.add_state("open", _Unasked())
        self.right_line = CorrectionLine(lowest=0.0, highest=1.0)
        self.gain_line = CorrectionLine(lowest=-1.0, highest=1.0)
        stakes = STAKES + math.ceil(-math.log2(budget))
        self.whole = _Means(stakes)
        # Of two overlapping windows.
        self.older: _Means | None = None if window is None else _Means(stakes)
        self.newer: _Means | None = None if window is None else _Means(stakes)

    @property
    def waiting(self) -> list[int]:
        """The ids whose requested labels are missing."""
        return [request.id for request in self.requests.values() if not request.answered]

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
        first, gains = self.served, np.where(differs, sure - source_sure, 0.0)
        rates = self._rates(label_worth(sure, source_sure, differs, self.gain_weight))
        wanted = coins(self.seed, first, len(now)) < rates
        start = 0
        for end in (*np.flatnonzero(wanted).tolist(), len(now)):
            part = slice(start, end)
            self.open = self.open.longer(sure[part], gains[part], rates[part], differs[part])
            if end < len(now):
                classes, estimates = (int(now[end]), int(before[end])), (float(sure[end]), float(gains[end]))
                self.requests[first + end] = _Request(first + end, *classes, *estimates, float(rates[end]), self.open)
                self.open = _Unasked()
            start = end + 1
        self.served, self.requested = first + len(now), self.requested + int(wanted.sum())
        self._settle()
        return LabelRequests(first + np.arange(len(now)), wanted, rates)

    def feedback(self, sample_id: int, label: int | None = None, *, correct: bool | None = None) -> bool:
        """Take the label of a sample, or whether its prediction is `correct`; neither says that it cannot be had.

        Returns whether it counts. Only requested labels count, and only once: those that someone chose to give are not
        a random sample.
        """
        label, sample_id = class_or_none(label, correct), operator.index(sample_id)
        if not 0 <= sample_id < self.served:
            raise ValueError(f"no sample has the id {sample_id}; {self.served} samples were served, from 0 on")
        request = self.requests.get(sample_id)
        if request is None or request.answered:
            return False
        label = request.served if correct else label
        wrong = correct is False
        self.requests[sample_id] = replace(request, label=label, wrong=wrong, given_up=label is None and not wrong)
        self._settle()
        return True

    def accuracy(self, *, recent: bool = False) -> Interval:
        """Return the bounds of the accuracy of what was served, over all samples or about the last `window`."""
        return self._chosen(recent).accuracy.interval(self.confidence, 0.0, 1.0)

    def gain(self, *, recent: bool = False) -> Interval:
        """Return the bounds of that accuracy minus the accuracy of the source on the same samples."""
        return self._chosen(recent).gain.interval(self.confidence, -1.0, 1.0)

    def declared(self) -> dict[str, Any]:
        """Return the defaults of all that `state_now` returns."""
        return {**super().declared(), "requests": [], "open": {}}

    def state_now(self) -> dict[str, Any]:
        """Return the declared attributes, with records as dictionaries."""
        requests = [asdict(request) for request in self.requests.values()]
        return {**super().state_now(), "requests": requests, "open": asdict(self.open)}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Set the declared attributes from such dictionaries."""
        requests = [_Request(**{**request, "before": _Unasked(**request["before"])}) for request in state["requests"]]
        records = {"requests": {request.id: request for request in requests}, "open": _Unasked(**state["open"])}
        super().set_extra_state({**state, **records})

    @property
    def _means(self) -> list[_Means]:
        return [means for means in (self.whole, self.older, self.newer) if means is not None]

    def _chosen(self, recent: bool) -> _Means:
        if not recent:
            return self.whole
        if self.older is None:
            raise ValueError("there are no recent bounds without a window; pass window= to LabelAudit")
        return self.older

    def _rates(self, worth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of choosing the samples of a batch: on average the budget."""
        # Samples become more or less uncertain over time: what was spent so far decides on what comes.
        thrift = min(max((self.budget * self.served / self.spent) ** THRIFT, 0.5), 2.0) if self.spent else 1.0
        self.worth += float(worth.sum())
        typical = self.worth / max(1, self.served + len(worth)) or 1.0
        rates: NDArray[np.float64] = np.minimum(
            1.0, thrift * self.budget * (EVEN_SHARE + (1 - EVEN_SHARE) * worth / typical)
        )
        self.spent += float(rates.sum())
        return rates

    def _settle(self) -> None:
        """Count samples in their order, up to the first whose label is missing."""
        while self.requests:
            request = next(iter(self.requests.values()))
            overdue = self.patience is not None and self.served - request.id > self.patience
            if not request.answered and not overdue:
                return
            del self.requests[request.id]
            self._count_stretch(request.before)
            self._count_labelled(request)
        self._count_stretch(self.open)
        self.open = _Unasked()

    def _count_stretch(self, stretch: _Unasked) -> None:
        if not stretch.samples:
            return
        offset, slope = self.right_line.coefficients
        right = offset * stretch.samples + slope * stretch.right
        offset, slope = self.gain_line.coefficients
        gained = offset * stretch.differing + slope * stretch.gained
        for means in self._means:
            accuracy, gain = means.accuracy, means.gain
            accuracy.bets.allow(-1 / stretch.lowest_rate, 1 / stretch.lowest_rate)
            accuracy.count(stretch.samples, right, right)
            if stretch.differing:
                gain.bets.allow(-2 / stretch.lowest_rate_differing, 2 / stretch.lowest_rate_differing)
            gain.count(stretch.samples, gained, gained)
        self._turn_window()

    def _count_labelled(self, request: _Request) -> None:
        differs = request.served != request.source
        expected = self.right_line.at(request.right)
        gained = self.gain_line.at(request.gained) if differs else 0.0
        known = request.label is not None or request.wrong
        right = float(request.served == request.label)
        gain = request.source_gain if request.wrong else right - float(request.source == request.label)
        rights = (right, right) if known else (0.0, 1.0)
        gains = (0.0, 0.0) if not differs else (-1.0, 0.0) if request.wrong else (gain, gain) if known else (-1.0, 1.0)
        for means in self._means:
            accuracy_mean, gain_mean = means.accuracy, means.gain
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
            self.right_line.add(request.right, right, weight)
            if differs:
                self.gain_line.add(request.gained, gain, weight)
        self._turn_window()

    def _turn_window(self) -> None:
        """Drop the older of the two windows when it is full; the newer starts when that is half full."""
        if self.window is None or self.older is None or self.newer is None:
            return
        older, newer = self.older.accuracy.samples, self.newer.accuracy.samples
        if older >= self.window:
            put_back(self.older, snapshot_of(self.newer, {}, kept=True)["declared"])
        if older >= self.window or (older < self.window / 2 and newer):
            self.newer.reset_state()
