from __future__ import annotations

import math

import numpy as np
import torch

from holdfast.benchmark.recorder import make_row
from holdfast.records import Batch, Estimate, Step


def test_an_estimate_is_written_with_its_interval_or_with_why_there_is_none() -> None:
    batch = Batch(torch.zeros(2, 1), np.array([0, 1]), ("fog", "fog"), position=0)
    estimates = {
        "plain": 0.5,
        "sure": Estimate(0.7, 0.6, 0.8),
        "lost": Estimate(math.nan, unknown="its signals disagree"),
    }
    row = make_row(batch, Step(torch.eye(2), estimates=estimates, gauges={"domains": 3.0}), 0.0)
    assert row.gauges == {"domains": 3.0}
    assert row.estimates["plain"] == 0.5
    assert row.estimates["sure"] == 0.7
    assert row.intervals == {"sure": (0.6, 0.8)}
    assert row.unknown == {"lost": "its signals disagree"}
