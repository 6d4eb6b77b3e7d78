from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch

from holdfast.benchmark.recorder import Recorder, make_row
from holdfast.records import Batch, Estimate, Step


def test_an_estimate_is_written_with_its_interval_or_with_why_there_is_none(tmp_path: Path) -> None:
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
    nothing = {"value": None, "low": None, "high": None, "unknown": None, "gain": None}
    assert stored["plain"] == {**nothing, "value": 0.5}
    assert stored["sure"] == {**nothing, "value": 0.7, "low": 0.6, "high": 0.8}
    assert stored["lost"] == {**nothing, "unknown": "its signals disagree"}
