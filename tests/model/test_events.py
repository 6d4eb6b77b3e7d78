"""A step says what happened and why: typed events with a reason and numbers, in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from holdfast import AdaptedModel, adapt, guard
from holdfast.methods.tent import Tent
from holdfast.models import Classifier, load
from holdfast.models.tiny import tiny_resnet
from holdfast.records import Alarm, LabelWanted, Refused, Reset, Step, Undone, Veto
from holdfast.recovery import Recovery
from holdfast.restorable import Restorable

GENERATOR = torch.Generator().manual_seed(0)
BATCHES = [torch.rand(8, 3, 32, 32, generator=GENERATOR) * (0.2 + 0.4 * (turn % 3)) for turn in range(13)]


def test_a_refused_batch_and_a_reset_are_events() -> None:
    model = adapt(tiny_resnet(), "tent", recovery="periodic", every_batches=1)
    assert model.step(BATCHES[0]).events == ()
    step = model.step(BATCHES[1] * 1e6)
    reset, refused = step.events
    assert isinstance(reset, Reset)
    assert isinstance(refused, Refused)
    assert (reset.reason, refused.reason) == (step.recovered, step.skipped)
    assert refused.reason.startswith("inputs reach ")


def test_events_before_in_and_after_an_update_are_all_reported_in_their_order() -> None:
    class Diverging(Tent):
        def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
            return super().loss(inputs, logits) * torch.inf

    class Eager(Recovery):
        def begin(self, method: Restorable) -> str:
            return "on schedule"

        def recover(self, method: Restorable, step: Step) -> str:
            return f"after {len(step.events)} events"

    step = AdaptedModel(Diverging(Classifier(tiny_resnet())), recovery=Eager()).step(BATCHES[0])
    said = [(type(event), event.reason) for event in step.events]
    assert said == [(Reset, "on schedule"), (Refused, "non-finite loss or gradient"), (Reset, "after 2 events")]


def run(level: float) -> list[Step]:
    torch.manual_seed(0)
    options = {"gate_every": 2, "margin": 0.0, "level": level, "prediction": "choose"}
    model = guard(load("digits_resnet"), "tent", options={"lr": 0.5}, source=BATCHES[:1], budget=0.5, **options)
    return [model.step(batch) for batch in BATCHES]


@pytest.fixture(scope="module")
def guarded() -> list[Step]:
    return run(level=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gauge", "kind", "level"), [("vetoes", Veto, 0.5), ("undone", Undone, 1e-9), ("alarms", Alarm, 0.5)]
)
def test_events_of_the_guard_are_what_its_gauges_count(gauge: str, kind: type, level: float) -> None:
    steps = run(level)
    counts = [0.0, *(step.gauges[gauge] for step in steps)]
    happened = [sum(isinstance(event, kind) for event in step.events) for step in steps]
    assert happened == [after - before for before, after in pairwise(counts)]
    assert sum(happened) > 0
    events = [event for step in steps for event in step.events if isinstance(event, kind)]
    assert all(event.numbers.get("loss", event.numbers.get("alarms", 0)) > 0 for event in events)


def test_an_alarm_resets_and_says_to_where(guarded: list[Step]) -> None:
    raised = [step for step in guarded if any(isinstance(event, Alarm) for event in step.events)]
    for step in raised:
        alarm, reset = (next(event for event in step.events if isinstance(event, kind)) for kind in (Alarm, Reset))
        assert step.recovered == reset.reason
        assert reset.reason.startswith(f"{alarm.reason}; went back to ")


def test_wanted_labels_are_an_event_with_their_ids(guarded: list[Step]) -> None:
    for step in guarded:
        wanted = [sample for sample, wants in zip(step.ids, step.wants_label, strict=True) if wants]
        events = [event for event in step.events if isinstance(event, LabelWanted)]
        assert [list(event.ids) for event in events] == ([wanted] if wanted else [])
        assert all(0 < event.numbers["lowest_rate"] <= 1 for event in events)
    assert any(any(step.wants_label) for step in guarded)


def test_the_verdict_of_the_guard_is_on_its_step(guarded: list[Step]) -> None:
    for step in guarded:
        assert step.verdict is not None
        assert torch.equal(step.verdict.served, step.logits.argmax(1))
    assert adapt(tiny_resnet(), "tent").step(BATCHES[0]).verdict is None
