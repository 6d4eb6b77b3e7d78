"""The embedded data sets, and the streams made of them, are those that were recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from holdfast.data import DATASETS
from holdfast.streams import STREAMS

Check = Callable[[object], None]
SHIFTS: dict[str, dict[str, Any]] = {
    "continual": {"corruptions": ["fog", "contrast"], "severity": 3, "samples_per_domain": 40},
    "correlated": {"corruptions": ["fog", "contrast"], "severity": 3, "samples_per_domain": 40},
    "gradual": {"corruptions": ["fog", "contrast"], "samples_per_domain": 10},
    "mixed_domains": {"corruptions": ["fog", "contrast"], "severity": 3, "samples_per_domain": 40},
    "reset_each_shift": {"corruptions": ["fog", "contrast"], "severity": 3, "samples_per_domain": 40},
    "unitta": {"setting": "(n,u)/(n,1)", "corruptions": ["fog", "contrast"], "mode": "stationary", "samples": 120},
}


def digest(values: Any) -> str:
    """Return a digest of an array's bytes."""
    return hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=8).hexdigest()


@pytest.mark.parametrize("name", ["digits", "keywords"])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_samples(recorded: Check, name: str, split: str) -> None:
    data = DATASETS[name](split)
    some = np.arange(0, len(data.labels), 7)
    recorded(
        {
            "samples": len(data.labels),
            "labels": data.labels[:12].tolist(),
            "classes": list(data.classes) if hasattr(data, "classes") else None,
            "all labels": digest(data.labels.astype(np.int64)),
            "inputs": digest(data.inputs(some)),
        }
    )


@pytest.mark.parametrize("name", sorted(SHIFTS))
def test_picks(recorded: Check, name: str) -> None:
    made = STREAMS[name](DATASETS["digits"]("test"), seed=3, **SHIFTS[name])
    picks = made.plan.picks(0, 60)
    recorded(
        {
            "domains": picks.domains.tolist(),
            "samples": picks.samples.tolist(),
            "severities": np.round(picks.severities, 6).tolist(),
            "length": made.plan.length,
        }
    )
