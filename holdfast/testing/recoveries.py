"""Contracts of a recovery: a reason for every reset, and state that survives saving."""

from __future__ import annotations

import tempfile
from pathlib import Path

from torch import nn

from holdfast.model.adapt import adapt
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.testing.comparison import Batches, assert_equal

__all__ = ["check_recovery"]


def check_recovery(recovery: str | Recovery, model: nn.Module, batches: Batches) -> None:
    """A recovery gives a reason whenever it goes back, and its own state survives saving."""
    name = recovery if isinstance(recovery, str) else RECOVERIES.name_of(type(recovery))
    adapted = adapt(model, "tent", recovery=recovery)
    for batch in batches:
        reason = adapted.step(batch).recovered
        assert reason is None or reason.strip(), f"{name} went back without a reason"
    with tempfile.TemporaryDirectory() as folder:
        adapted.save(Path(folder) / "state.safetensors")
        again = adapt(model, "tent", recovery=recovery)
        again.load(Path(folder) / "state.safetensors")
    expected = [adapted.step(batch) for batch in batches]
    found = [again.step(batch) for batch in batches]
    assert [step.recovered for step in expected] == [step.recovered for step in found], f"{name} forgot its state"
    assert_equal([step.logits for step in expected], [step.logits for step in found], f"answers beside {name}")
