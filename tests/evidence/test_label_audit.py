"""Bounds from labels hold for any stream and estimates, and labels may come late, in any order, or not at all."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.evidence import LabelAudit, LabelRequests
from holdfast.evidence.line import CorrectionLine
from holdfast.evidence.mean import BoundedMean
from holdfast.evidence.sampling import coins


@dataclass(frozen=True)
class Served:
    """Predictions of a stream, with estimates of their being right, and the labels."""

    served: np.ndarray
    source: np.ndarray
    right: np.ndarray
    source_right: np.ndarray
    labels: np.ndarray

    def part(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return what `serve` takes."""
        return {name: getattr(self, name)[start:stop] for name in ("served", "source", "right", "source_right")}

    def averages(self, count: int) -> tuple[float, float]:
        """Return the accuracy of the first samples, and the gain over the source."""
        now, before = self.served[:count] == self.labels[:count], self.source[:count] == self.labels[:count]
        return float(now.mean()), float(now.mean() - before.mean())


def stream(samples: int, estimates: str, seed: int = 0) -> Served:
    """Return a stream whose accuracy falls from 95 % to 55 %, with honest or misleading estimates."""
    rng = np.random.default_rng(seed)
    chance = np.linspace(0.95, 0.55, samples)
    labels = np.zeros(samples, int)
    served = (rng.random(samples) >= chance) * 1
    source = np.where(rng.random(samples) < 0.2, 2 * (rng.random(samples) < 0.6), served)
    right = {"honest": chance, "overconfident": np.full(samples, 0.99), "reversed": 1 - chance}[estimates]
    return Served(served, source, right, np.where(source == served, right, 1 - right), labels)


def answer(audit: LabelAudit, asked: LabelRequests, data: Served, *, binary: float = 0.0) -> None:
    """Give all wanted labels, a share of them as yes or no."""
    for sample_id in asked.wanted_ids:
        label = int(data.labels[sample_id])
        if coins(1, sample_id, 1)[0] < binary:
            assert audit.feedback(sample_id, correct=bool(data.served[sample_id] == label))
        else:
            assert audit.feedback(sample_id, label)


@pytest.mark.parametrize("binary", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("estimates", ["honest", "overconfident", "reversed"])
def test_all_intervals_hold_at_once_whatever_the_estimates(estimates: str, binary: float) -> None:
    data, wrong = stream(400, estimates), np.zeros(2)
    for seed in range(40):
        audit, missed = LabelAudit(budget=0.2, confidence=0.8, seed=seed), np.zeros(2, bool)
        for start in range(0, 400, 100):
            answer(audit, audit.serve(**data.part(start, start + 100)), data, binary=binary)
            intervals, true = (audit.accuracy(), audit.gain()), data.averages(start + 100)
            assert intervals[0].samples == start + 100
            missed |= [not now.low <= value <= now.high for now, value in zip(intervals, true, strict=True)]
        wrong += missed
    assert (wrong <= 8).all()


def test_yes_and_no_bound_the_accuracy_as_labels_do_and_the_gain_less_closely() -> None:
    data, intervals = stream(2000, "honest"), {}
    for binary in (0.0, 1.0):
        audit = LabelAudit(budget=0.3)
        answer(audit, audit.serve(**data.part(0, 2000)), data, binary=binary)
        intervals[binary] = (audit.accuracy(), audit.gain())
    assert intervals[1.0][0] == intervals[0.0][0]
    labels, yes_or_no = intervals[0.0][1], intervals[1.0][1]
    assert yes_or_no.low < labels.low
    assert labels.high < yes_or_no.high < 1
    assert yes_or_no.low <= data.averages(2000)[1] <= yes_or_no.high
    assert abs(yes_or_no.value - labels.value) < 0.05


def test_yes_is_the_label_that_was_served() -> None:
    first, second = LabelAudit(budget=1.0), LabelAudit(budget=1.0)
    for audit, given in ((first, {"correct": True}), (second, {"label": 3})):
        audit.serve(served=[3], source=[7], right=[0.5], source_right=[0.2])
        assert audit.feedback(0, **given)
        assert not audit.feedback(0, correct=False)
    assert first.state_dict() == second.state_dict()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"label": -1}, "label must be a class from 0 on, or None, got -1"),
        ({"label": 3.7}, "label must be a class from 0 on, or None, got 3.7"),
        ({"label": True}, "label must be a class from 0 on, or None, got True"),
        ({"label": torch.tensor(True)}, "label must be a class from 0 on, or None, got tensor"),
        ({"label": torch.tensor([3])}, "label must be a class from 0 on, or None, got tensor"),
        ({"label": "3"}, "label must be a class from 0 on, or None, got '3'"),
        ({"correct": 1}, "correct must be True or False, got 1"),
        ({"label": 3, "correct": True}, "give label or correct, not both, got 3 and True"),
    ],
)
def test_what_is_no_label_is_refused_and_changes_nothing(given: dict[str, Any], sentence: str) -> None:
    audit = LabelAudit(budget=1.0)
    audit.serve(served=[3], source=[7], right=[0.5], source_right=[0.2])
    before = audit.state_dict()
    with pytest.raises(ValueError, match=re.escape(sentence)):
        audit.feedback(0, **given)
    assert audit.state_dict() == before
    assert audit.feedback(0, np.int64(3))


def test_values_are_unbiased() -> None:
    data = stream(400, "overconfident")
    values = []
    for seed in range(60):
        audit = LabelAudit(budget=0.3, seed=seed)
        answer(audit, audit.serve(**data.part(0, 400)), data)
        values.append((audit.accuracy().value, audit.gain().value))
    error = np.std(values, axis=0) / np.sqrt(len(values))
    assert (np.abs(np.mean(values, axis=0) - data.averages(400)) < 3 * error).all()


def test_good_estimates_make_bounds_narrower() -> None:
    rng = np.random.default_rng(0)
    right = rng.random(4000) < 0.8
    served, labels = np.zeros(4000, int), np.where(right, 0, 1)
    widths = []
    for sure in (np.where(right, 0.99, 0.01), np.full(4000, 0.8)):
        data, audit = Served(served, served, sure, sure, labels), LabelAudit(budget=0.2, gain_weight=0)
        answer(audit, audit.serve(**data.part(0, 4000)), data)
        widths.append(audit.accuracy().high - audit.accuracy().low)
    assert widths[0] < 0.5 * widths[1]


def test_gain_is_zero_without_labels_when_all_predictions_agree() -> None:
    audit = LabelAudit()
    audit.serve(served=[1] * 10_000, source=[1] * 10_000, right=[0.5] * 10_000, source_right=[0.5] * 10_000)
    while audit.waiting:
        audit.feedback(audit.waiting[0], 0)
    assert audit.gain().value == 0
    assert -0.05 < audit.gain().low <= 0 <= audit.gain().high < 0.05


def test_a_budget_for_gain_alone_is_spread_evenly_while_nothing_differs() -> None:
    asked = LabelAudit(budget=0.1, gain_weight=1).serve(
        served=[1, 1], source=[1, 1], right=[0.5] * 2, source_right=[0.5] * 2
    )
    assert asked.rates == pytest.approx(0.025)


def test_labels_in_any_order_give_the_same_bounds() -> None:
    data = stream(500, "honest")
    first, second = LabelAudit(budget=0.2), LabelAudit(budget=0.2)
    asked = first.serve(**data.part(0, 500)).wanted_ids
    second.serve(**data.part(0, 500))
    for sample_id in asked:
        first.feedback(sample_id, int(data.labels[sample_id]))
    for sample_id in reversed(asked):
        assert second.accuracy().samples < 500
        second.feedback(sample_id, int(data.labels[sample_id]))
    assert second.accuracy() == first.accuracy()
    assert second.gain() == first.gain()


def test_batch_sizes_do_not_change_the_coins() -> None:
    data = stream(200, "honest")
    whole, parts = LabelAudit(budget=1.0), LabelAudit(budget=1.0)
    assert whole.serve(**data.part(0, 200)).ids.tolist() == list(range(200))
    assert parts.serve(**data.part(0, 3)).ids.tolist() == [0, 1, 2]
    assert parts.serve(**data.part(3, 200)).ids.tolist() == list(range(3, 200))
    assert (np.concatenate([coins(5, start, 7) for start in range(0, 70, 7)]) == coins(5, 0, 70)).all()


def test_the_budget_is_kept_on_average_and_spent_on_differences() -> None:
    data = stream(20_000, "honest")
    audit = LabelAudit(budget=0.05)
    asked = [audit.serve(**data.part(start, start + 100)) for start in range(0, 20_000, 100)]
    rates, wanted = (np.concatenate([getattr(batch, name) for batch in asked]) for name in ("rates", "wanted"))
    differs = data.served != data.source
    assert audit.requested == wanted.sum() == pytest.approx(1000, rel=0.1)
    assert rates[differs].mean() > 2 * rates[~differs].mean()
    assert rates.min() >= 0.05 / 8


def test_a_label_that_never_comes_widens_the_bounds() -> None:
    data = stream(500, "honest")
    full, given_up, overdue = LabelAudit(budget=0.2), LabelAudit(budget=0.2), LabelAudit(budget=0.2, patience=0)
    for audit in (full, given_up, overdue):
        asked = audit.serve(**data.part(0, 500)).wanted_ids
        for sample_id in asked[5:]:
            audit.feedback(sample_id, int(data.labels[sample_id]))
    assert full.accuracy().samples < overdue.accuracy().samples == 500
    for sample_id in asked[:5]:
        full.feedback(sample_id, int(data.labels[sample_id]))
        assert given_up.feedback(sample_id, None)
    for wider in (given_up, overdue):
        assert wider.waiting == []
        assert wider.accuracy().low < full.accuracy().low - 0.1
        assert wider.gain().high - wider.gain().low > full.gain().high - full.gain().low
    hopeless = LabelAudit(budget=0.2)
    for sample_id in hopeless.serve(**data.part(0, 500)).wanted_ids:
        hopeless.feedback(sample_id, None)
    assert hopeless.accuracy().low < 0.05
    assert hopeless.accuracy().high > 0.95


def test_a_label_is_overdue_after_as_many_further_samples_as_patience_says() -> None:
    audit = LabelAudit(budget=1.0, patience=3)
    waiting = []
    for _ in range(5):
        audit.serve(served=[1], source=[0], right=[0.5], source_right=[0.5])
        waiting.append(audit.waiting)
    assert waiting == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_labels_weigh_by_how_unlikely_their_sample_was_to_be_chosen() -> None:
    audit = LabelAudit(budget=0.5)
    right = np.linspace(0.05, 0.95, 40)
    asked = audit.serve(served=[1] * 40, source=[1] * 40, right=right, source_right=right)
    for sample_id in asked.wanted_ids:
        audit.feedback(sample_id, 1)
    weights = 0.5 / asked.rates[asked.wanted]
    assert len(set(weights.round(6))) > 3
    line = audit.right_line.sums
    assert line["weight"] == line["y"] == pytest.approx(weights.sum())
    assert line["x"] == pytest.approx(weights @ right[asked.wanted])


def test_only_requested_labels_count_and_only_once() -> None:
    data = stream(100, "honest")
    audit = LabelAudit(budget=0.2)
    asked = audit.serve(**data.part(0, 100))
    wanted, later = asked.wanted_ids[:2]
    other = int(asked.ids[~asked.wanted][0])
    assert not audit.feedback(other, 0)
    for sample_id in (later, wanted):  # the later one waits for the other
        assert audit.feedback(sample_id, 0)
        assert not audit.feedback(sample_id, 1)
    with pytest.raises(ValueError, match="no sample has the id 100"):
        audit.feedback(100, 0)


def test_recent_bounds_follow_a_fall() -> None:
    samples = 8000
    labels = np.zeros(samples, int)
    served = (np.arange(samples) >= 6000) * 1  # all right, then all wrong
    data = Served(served, served, np.full(samples, 0.9), np.full(samples, 0.9), labels)
    audit = LabelAudit(budget=0.2, window=1000)
    for start in range(0, samples, 100):
        answer(audit, audit.serve(**data.part(start, start + 100)), data)
    assert audit.accuracy().low > 0.6
    assert audit.accuracy(recent=True).high < 0.3
    assert 500 <= audit.accuracy(recent=True).samples <= 1100
    with pytest.raises(ValueError, match="pass window="):
        LabelAudit().gain(recent=True)


def test_saved_state_continues_exactly() -> None:
    data = stream(600, "honest")
    whole, second = LabelAudit(budget=0.2, window=200), LabelAudit(budget=0.2, window=200)
    late = whole.serve(**data.part(0, 300)).wanted_ids
    for sample_id in late[10:]:
        whole.feedback(sample_id, 0)
    second.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    for audit in (whole, second):
        for sample_id in late[:10]:
            audit.feedback(sample_id, 0)
        answer(audit, audit.serve(**data.part(300, 600)), data)
    assert second.state_dict() == whole.state_dict()
    assert second.gain(recent=True) == whole.gain(recent=True)


def test_wrong_settings_and_values_are_refused() -> None:
    for settings, match in (
        ({"budget": 0}, "budget is the share of samples to label"),
        ({"confidence": 1}, "confidence must be between 0 and 1"),
        ({"gain_weight": 2}, "gain_weight must be between 0"),
        ({"window": 1}, "window must be at least 2"),
    ):
        with pytest.raises(ValueError, match=match):
            LabelAudit(**settings)  # type: ignore[arg-type]
    audit = LabelAudit()
    with pytest.raises(ValueError, match="one value for each sample"):
        audit.serve(served=[1, 2], source=[1], right=[0.5], source_right=[0.5])
    with pytest.raises(ValueError, match="the probability of being right must be between 0 and 1"):
        audit.serve(served=[1], source=[1], right=[1.5], source_right=[0.5])
    assert audit.state_dict() == LabelAudit().state_dict()
    with pytest.raises(RuntimeError, match="Missing key"):
        audit.load_state_dict({})


def test_a_steep_correction_stays_within_what_is_possible() -> None:
    line = CorrectionLine(lowest=0, highest=1)
    for estimate, outcome in ((0.4, 0.0), (0.6, 1.0)):
        line.add(estimate, outcome, weight=1000)
    assert [line.at(end) for end in (0.0, 1.0)] == pytest.approx([0.0, 1.0])


def test_labels_of_much_weight_do_not_carry_the_mean_out_of_its_bounds() -> None:
    mean = BoundedMean(largest=0.9, stakes=10)
    mean.count(2, total=5.0, centres=1.0)
    interval = mean.interval(0.95, 0.0, 1.0)
    assert interval.value == interval.high <= 1


@pytest.mark.parametrize("sample_id", [0.0, 0.5, "0", None])
def test_what_is_no_id_of_a_sample_is_refused(sample_id: Any) -> None:
    audit = LabelAudit(budget=1.0)
    audit.serve(served=[3], source=[7], right=[0.5], source_right=[0.2])
    with pytest.raises(TypeError):
        audit.feedback(sample_id, 3)
    assert audit.feedback(0, 3)
