"""Snapshots hold all adapted state; a reset uses the newest settled one, then older ones, then the source."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import resolve
from holdfast.records import Estimate, Step
from holdfast.recovery.last_good import LastGood
from holdfast.registry import UnknownNameError
from holdfast.testing.comparison import first_difference

BATCHES = torch.rand(6, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Clock:
    """A model whose only state is its number of updates."""

    now = 0

    def reset(self) -> None:
        self.now = 0

    def snapshot(self) -> dict[str, Tensor]:
        return {"now": torch.tensor(self.now)}

    def return_to(self, snapshot: Mapping[str, Tensor]) -> None:
        self.now = int(snapshot["now"])


def live(recovery: LastGood, clock: Clock, batches: int, estimate: float = 0.5) -> list[str]:
    reasons = []
    for _ in range(batches):
        clock.now += 1
        step = Step(torch.zeros(1, 10), 0.5, {"aetta": Estimate(estimate)})
        reasons.append(recovery.recover(clock, step))  # type: ignore[arg-type]
    return [reason for reason in reasons if reason]


def test_it_goes_to_the_newest_settled_snapshot_then_further_back_then_to_the_source() -> None:
    recovery, clock = LastGood(every_batches=5, snapshots=3, settled_batches=6), Clock()
    assert not live(recovery, clock, 22)  # snapshots at 10, 15 and 20
    (first,) = live(recovery, clock, 1, estimate=0.1)
    assert first == "estimated accuracy 0.1 below 0.2; back by 8 batches"
    assert clock.now == 15
    (second,) = live(recovery, clock, 1, estimate=0.1)
    assert clock.now == 10
    assert second.endswith("back by 14 batches")
    (third,) = live(recovery, clock, 1, estimate=0.1)
    assert third.endswith("back to the source")
    assert clock.now == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [("tent", {"lr": 0.1}), ("cotta", {"lr": 0.1}), ("rotta", {"every_samples": 8}), ("unmix_tns", {})],
)
def test_a_snapshot_is_all_that_answers(name: str, options: dict[str, float]) -> None:
    model = adapt(tiny_resnet(), name, recovery="never", **options)
    for batch in BATCHES[:3]:
        model(batch)
    snapshot = model.method.snapshot()
    assert snapshot
    twin = copy.deepcopy(model)
    for batch in BATCHES[3:]:
        model(batch)
    model.method.return_to(snapshot)
    assert first_difference(model.method.state_dict(), twin.method.state_dict()) is None
    for batch in BATCHES[3:]:
        assert torch.equal(model(batch), twin(batch))


def test_snapshots_of_an_untouched_model_hold_no_tensor() -> None:
    assert adapt(tiny_resnet(), "tent").method.snapshot()["tensors"] == {}


def test_any_recovery_can_be_the_trigger() -> None:
    model = adapt(
        tiny_resnet(),
        "tent",
        recovery="last_good",
        trigger="periodic",
        trigger_options={"every_batches": 4},
        every_batches=1,
        settled_batches=2,
        lr=0.1,
    )
    reasons = [model.step(batch).recovered for batch in BATCHES]
    assert [index for index, reason in enumerate(reasons) if reason] == [4]
    assert reasons[4] == "4 batches since the last reset; back by 2 batches"
    assert model.recipe["recovery_options"]["trigger_options"] == {"every_batches": 4}


def test_nothing_to_go_back_to_is_refused() -> None:
    with pytest.raises(ValueError, match="snapshots of recovery 'last_good' must be a whole number from 1"):
        resolve("tent", recovery=LastGood(snapshots=0))
    with pytest.raises(UnknownNameError, match="'periodic' has no option 'every'; did you mean 'every_batches'"):
        LastGood(trigger="periodic", trigger_options={"every": 3})
