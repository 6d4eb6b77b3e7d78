"""Contracts of a recovery: a reason for every reset, and state that survives saving."""

from __future__ import annotations

import tempfile
from pathlib import Path

from torch import nn

from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.testing.comparison import Batches, assert_equal
from holdfast.testing.contract import contract


def check_recovery(recovery: str | Recovery, model: nn.Module, batches: Batches) -> None:
    """Run every contract of a recovery and print a line for each; one that fails raises an AssertionError.

    Args:
        recovery: a name, or one that is built.
        model: a network.
        batches: of inputs.
    """
    name = recovery if isinstance(recovery, str) else RECOVERIES.name_of(type(recovery))
    adapted = adapt(model, "tent", recovery=recovery)
    with contract("Whenever it goes back, it gives a reason."):
        for batch in batches:
            reason = adapted.step(batch).recovered
            assert reason is None or reason.strip(), f"{name} went back without a reason"
    with contract("Saved and loaded, it recovers and predicts the same."):
        _check_saving(name, adapted, adapt(model, "tent", recovery=recovery), batches)


def _check_saving(name: str, adapted: AdaptedModel, again: AdaptedModel, batches: Batches) -> None:
    with tempfile.TemporaryDirectory() as folder:
        adapted.save(Path(folder) / "state.safetensors")
        again.load(Path(folder) / "state.safetensors")
    expected = [adapted.step(batch) for batch in batches]
    resumed = [again.step(batch) for batch in batches]
    assert [step.recovered for step in expected] == [step.recovered for step in resumed], f"{name} forgot its state"
    assert_equal([step.logits for step in expected], [step.logits for step in resumed], f"answers beside {name}")
