from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.benchmark.recorder import Recorder, make_row
from holdfast.records import Batch, Estimate, Step


def test_an_estimate_is_written_with_its_interval_or_the_reason_for_none(tmp_path: Path) -> None:
    batch = Batch(torch.zeros(2, 1), np.array([0, 1]), ("fog", "fog"), position=0)
    estimates = {
        "plain": Estimate(0.5),
        "sure": Estimate(0.7, 0.6, 0.8),
        "lost": Estimate(math.nan, unknown="its signals disagree"),
    }
    row = make_row(batch, Step(torch.eye(2), estimates=estimates, gauges={"domains": 3.0}), 0.0)
    assert row.gauges == {"domains": 3.0}
    assert row.estimates == estimates
    with Recorder(tmp_path / "rows.jsonl") as recorder:
        recorder.write(row)
    stored = json.loads((tmp_path / "rows.jsonl").read_text())["estimates"]
    nothing = {"value": None, "low": None, "high": None, "unknown": None, "gain": None, "alarm": None}
    assert stored["plain"] == {**nothing, "value": 0.5}
    assert stored["sure"] == {**nothing, "value": 0.7, "low": 0.6, "high": 0.8}
    assert stored["lost"] == {**nothing, "unknown": "its signals disagree"}


def test_confidence_and_entropy_are_means_over_the_batch() -> None:
    probs = torch.tensor([[0.5, 0.25, 0.25], [0.9, 0.05, 0.05], [1.0, 0.0, 0.0]], dtype=torch.float64)
    batch = Batch(torch.zeros(3, 1), np.array([0, 0, 1]), ("fog",) * 3, position=0)
    row = make_row(batch, Step(probs.log()), 0.0)
    entropies = [-sum(share * math.log(share) for share in sample if share) for sample in probs.tolist()]
    assert row.confidence == pytest.approx((0.5 + 0.9 + 1.0) / 3)
    assert row.entropy == pytest.approx(sum(entropies) / 3)
    assert row.accuracy == pytest.approx(2 / 3)
