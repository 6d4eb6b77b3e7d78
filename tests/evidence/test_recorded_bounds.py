"""Bounds, alarms and temperatures on fixed sequences are those that were recorded, number by number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from holdfast.evidence import (
    ConfidenceSequence,
    LabelAudit,
    LossAlarm,
    RiskMonitor,
    temperature_doubt,
    temperature_from_accuracy,
    temperature_from_agreement,
    temperature_from_labels,
    temperature_from_stream,
)
from holdfast.evidence.bets import SumBets
from holdfast.evidence.line import CorrectionLine
from holdfast.evidence.sampling import coins, label_worth

Check = Callable[[object], None]


def hashed(count: int, seed: int) -> np.ndarray:
    """Numbers between 0 and 1 that no version of a library changes."""
    return (np.arange(1, count + 1) * (0.6180339887498949 + 0.1 * seed)) % 1


@pytest.mark.parametrize(("lowest", "highest", "confidence"), [(0.0, 1.0, 0.95), (-1.0, 2.0, 0.8)])
def test_confidence_sequence(recorded: Check, lowest: float, highest: float, confidence: float) -> None:
    sequence, course = ConfidenceSequence(confidence=confidence, lowest=lowest, highest=highest), []
    values = lowest + (highest - lowest) * hashed(120, 1) ** 2
    for start in (0, 1, 2, 7, 30, 31, 90):
        stop = {0: 1, 1: 2, 2: 7, 7: 30, 30: 31, 31: 90, 90: 120}[start]
        sequence.observe(values[start:stop])
        now = sequence.interval()
        course.append([now.low, now.value, now.high])
    recorded(course)


def test_bets(recorded: Check) -> None:
    course = []
    bets = SumBets(largest=0.5, stakes=6)
    for deviation in (0.3 * hashed(40, 2) - 0.1).tolist():
        bets.add([deviation])
        course.append([float(bound) for bound in bets.bounds(0.9)])
    bets.add_between([-0.2, 0.0], [0.1, 0.3])
    course.append([float(bound) for bound in bets.bounds(0.9)])
    bets.allow(-0.4, 0.3)
    course.append([float(bound) for bound in bets.bounds(0.95)])
    recorded(course)


def test_correction_line(recorded: Check) -> None:
    line, course = CorrectionLine(lowest=-1.0, highest=1.0), []
    for estimate, outcome in zip(hashed(12, 3) * 2 - 1, hashed(12, 4) * 2 - 1, strict=True):
        line.add(float(estimate), float(outcome), weight=1 + abs(float(estimate)))
        course.append([*line.coefficients, line.at(-0.5), line.at(0.25), line.at(1.0)])
    recorded(course)


@pytest.mark.parametrize(("window", "patience", "binary"), [(None, None, False), (80, 40, False), (80, None, True)])
def test_label_audit(recorded: Check, window: int | None, patience: int | None, binary: bool) -> None:
    audit = LabelAudit(budget=0.2, confidence=0.9, window=window, patience=patience, seed=3)
    chance, course = np.linspace(0.95, 0.6, 400), []
    labels = (hashed(400, 5) * 3).astype(int)
    served = np.where(hashed(400, 6) < chance, labels, (labels + 1) % 3)
    source = np.where(hashed(400, 7) < 0.3, (labels + 2) % 3, served)
    late: list[int] = []
    for start in range(0, 400, 25):
        part = slice(start, start + 25)
        asked = audit.serve(
            served=served[part],
            source=source[part],
            right=chance[part],
            source_right=np.where(source == served, chance, 1 - chance)[part],
        )
        for sample in [*late[::2], *asked.wanted_ids[1:]]:
            if binary and sample % 2:
                audit.feedback(sample, correct=bool(served[sample] == labels[sample]))
            else:
                audit.feedback(sample, None if sample % 11 == 0 else int(labels[sample]))
        late = [*late[1::2], *asked.wanted_ids[:1]]
        bounds = [audit.accuracy(), audit.gain()]
        bounds += [] if window is None else [audit.accuracy(recent=True), audit.gain(recent=True)]
        course.append(
            {
                "bounds": [[bound.low, bound.value, bound.high] for bound in bounds],
                "wanted": asked.wanted_ids,
                "rates": [float(rate) for rate in asked.rates[::8]],
                "waiting": len(audit.waiting),
                "requested": audit.requested,
            }
        )
    recorded(course)


@pytest.mark.parametrize(("tolerated", "lowest", "highest"), [(0.0, -1.0, 1.0), (0.1, 0.0, 1.0)])
def test_loss_alarm(recorded: Check, tolerated: float, lowest: float, highest: float) -> None:
    alarm, course = LossAlarm(level=0.05, tolerated=tolerated, lowest=lowest, highest=highest), []
    healthy, harmful = hashed(200, 8) ** 4 - 0.3, hashed(200, 9) - 0.2
    losses = np.clip(np.concatenate([healthy, harmful]), lowest, highest)
    for start in range(0, 400, 20):
        raised = alarm.observe(losses[start : start + 20])
        course.append([raised, alarm.seen, alarm.raised, alarm.evidence])
    recorded(course)


def test_risk_monitor(recorded: Check) -> None:
    monitor = RiskMonitor(hashed(400, 1) < 0.1, tolerated=0.05, level=0.1)
    course: list[object] = [monitor.low]
    for round_, error in enumerate((0.1, 0.3, 0.6, 0.9, 0.95)):
        wrong = hashed(400, 2) < 0.1
        monitor.calibrate(np.where(wrong, 0.4 + 0.6 * hashed(400, 3), 0.5 * hashed(400, 4)), wrong)
        now_wrong = hashed(200, 5 + round_) < error
        alarm = monitor.observe(np.where(now_wrong, 0.4 + 0.6 * hashed(200, 3), 0.5 * hashed(200, 4)))
        course.append([alarm, monitor.low])
    recorded(course)


def test_temperatures(recorded: Check) -> None:
    logits = 6 * hashed(1200, 1).reshape(120, 10)
    others = 6 * hashed(1200, 1.5).reshape(120, 10)
    close = logits + 0.5 * others
    labels = np.where(hashed(120, 2) < 0.7, logits.argmax(1), (hashed(120, 3) * 10).astype(int))
    agreed = logits.argmax(1) == close.argmax(1)
    found = {
        "labels": temperature_from_labels(logits, labels),
        "accuracy": temperature_from_accuracy(logits, 0.6),
        "accuracy of another view": temperature_from_accuracy(logits, 0.6, source=close),
        "agreement": temperature_from_agreement(logits, close),
        "stream": temperature_from_stream(logits, agreed),
        "stream with a known accuracy": temperature_from_stream(logits, agreed, clean_accuracy=0.5),
    }
    made: dict[str, object] = {
        name: None if one is None else [float(one.temperature), float(one.error)] for name, one in found.items()
    }
    made["doubts"] = [temperature_doubt(logits, other, 1.0) for other in (logits, close, others)]
    recorded(made)


def test_coins_and_worth(recorded: Check) -> None:
    sure, source_sure = hashed(8, 1), hashed(8, 2)
    differs = hashed(8, 3) < 0.5
    recorded(
        {
            "coins": coins(7, 5, 6).tolist(),
            "worth": [label_worth(sure, source_sure, differs, weight).tolist() for weight in (0.0, 0.5, 1.0)],
        }
    )
