"""A batch is predicted first and adapted to later: the same predictions and states as with `step`."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from holdfast import AdaptedModel, adapt, guard
from holdfast.models.tiny import tiny_resnet

BATCHES = torch.rand(4, 8, 3, 32, 32, generator=torch.Generator().manual_seed(5))


def build(kind: str) -> AdaptedModel:
    torch.manual_seed(0)
    network = tiny_resnet(widths=(8,))
    if kind.startswith("guard:"):
        return guard(network, kind[6:], budget=0.5, source=[BATCHES[0]])
    return adapt(network, kind, source=[BATCHES[0]])


KINDS = ["tent", "rotta", "neo", "guard:tent", "guard:auto"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_halves_are_one_step(kind: str) -> None:
    whole, halves = build(kind), build(kind)
    for batch in BATCHES:
        step, pending = whole.step(batch), halves.begin(batch)
        assert torch.equal(pending.logits, step.logits)
        assert pending.ids == step.ids
        assert pending.wants_label == step.wants_label
        done = pending.finish()
        assert (done.loss, done.skipped, done.gauges) == (step.loss, step.skipped, step.gauges)
        assert done.estimates.keys() == step.estimates.keys()
        assert halves.digest() == whole.digest()


USES: dict[str, Callable[[AdaptedModel, Path], Any]] = {
    "begin": lambda model, _: model.begin(BATCHES[1]).finish(),
    "step": lambda model, _: model.step(BATCHES[1]),
    "predict": lambda model, _: model.predict(BATCHES[1]),
    "reset": lambda model, _: model.reset(),
    "save": lambda model, folder: model.save(folder / "state"),
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.dumps(model),
    "export": lambda model, _: model.export(),
    "snapshot": lambda model, _: model.snapshot(),
}


@pytest.mark.parametrize("use", USES)
def test_any_other_use_finishes_a_pending_batch_first(use: str, tmp_path: Path) -> None:
    model, expected = build("tent"), build("tent")
    pending = model.begin(BATCHES[0])
    USES[use](model, tmp_path)
    step = expected.step(BATCHES[0])
    USES[use](expected, tmp_path)
    assert model.digest() == expected.digest()
    assert pending.finish().loss == step.loss
    assert model.digest() == expected.digest(), "the second call of finish changed something"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_has_adapted_to_the_pending_batch(copied: Callable[[AdaptedModel], AdaptedModel]) -> None:
    model, expected = build("tent"), build("tent")
    model.begin(BATCHES[0])
    expected.step(BATCHES[0])
    assert copied(model).digest() == expected.digest()


def test_a_domain_that_begins_while_a_batch_is_pending_is_not_undone_with_it() -> None:
    model = adapt(tiny_resnet(widths=(8,)), "tent", recovery="oracle")
    model.enter_domain("fog")
    pending = model.begin(BATCHES[0])
    with mock.patch.object(type(model.method), "adapt", side_effect=RuntimeError("out of memory")):
        model.enter_domain("snow")
    assert "out of memory" in (pending.finish().skipped or "")
    assert model.step(BATCHES[1]).recovered == "told that snow follows fog"


def test_finishing_in_another_thread_gives_the_same_state() -> None:
    model, expected = build("tent"), build("tent")
    pending = model.begin(BATCHES[0])
    thread = threading.Thread(target=pending.finish)
    thread.start()
    thread.join()
    expected.step(BATCHES[0])
    assert model.digest() == expected.digest()


def test_an_error_while_adapting_costs_neither_the_prediction_nor_the_state() -> None:
    model = build("tent")
    before = model.digest()
    pending = model.begin(BATCHES[0])
    with mock.patch.object(torch.optim.Adam, "step", side_effect=RuntimeError("no memory")):
        step = pending.finish()
    assert step.skipped == "RuntimeError: no memory"
    assert torch.equal(step.logits, pending.logits)
    assert model.digest() == before


def test_an_interrupt_while_adapting_is_raised_once_and_undone() -> None:
    model = build("tent")
    before = model.digest()
    pending = model.begin(BATCHES[0])
    with mock.patch.object(torch.optim.Adam, "step", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        pending.finish()
    assert model.digest() == before
    assert pending.finish().skipped == "the update was interrupted"


def test_a_method_that_predicts_after_its_update_says_so() -> None:
    assert build("tent").begin(BATCHES[0]).predicts == "before"
    assert build("blend").begin(BATCHES[0]).predicts == "after"
    model = adapt(tiny_resnet(), "cpl", predicts="after")
    before = model.digest()
    pending = model.begin(BATCHES[0])
    assert pending.predicts == "after"
    pending.finish()
    assert model.digest() != before
    assert guard(tiny_resnet(), "cpl", options={"predicts": "after"}).begin(BATCHES[0]).predicts == "after"


@pytest.mark.parametrize("kind", KINDS)
def test_without_adapting_nothing_changes(kind: str) -> None:
    model = build(kind)
    model.step(BATCHES[0])
    before, expected = model.digest(), model.predict(BATCHES[1])
    pending = model.begin(BATCHES[1], adapt=False)
    assert torch.equal(pending.logits, expected.logits)
    pending.finish()
    assert model.digest() == before


def test_what_a_paused_guard_serves_still_counts_in_its_audit() -> None:
    model = guard(tiny_resnet(), "tent", budget=1.0)
    first = model.begin(BATCHES[0], adapt=False)
    second = model.begin(BATCHES[1])
    assert first.ids + second.ids == tuple(range(16))
    assert model.feedback(3, 1)
    model.predict(BATCHES[2])
    assert model.begin(BATCHES[2]).ids[0] == 16, "predicting alone counts nothing as served"


def test_a_failed_update_is_audited_with_its_own_prediction() -> None:
    model = guard(tiny_resnet(), "tent", budget=1.0)
    model.step(BATCHES[0])
    with mock.patch.object(torch.optim.Adam, "step", side_effect=RuntimeError("no memory")):
        step = model.step(BATCHES[1])
    assert step.skipped == "RuntimeError: no memory"
    served = [request.served for request in model.audit.requests.values()][8:]
    assert served == step.logits.argmax(1).tolist()


def test_a_forked_process_drops_a_pending_batch() -> None:
    model = build("tent")
    before = model.digest()
    pending = model.begin(BATCHES[0])
    child = os.fork()
    if child == 0:
        os._exit(0 if model.digest() == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pending.finish().loss is not None


def test_autocast_holds_for_both_halves() -> None:
    network = tiny_resnet(widths=(8,))
    model, expected = (adapt(network, "sar", entropy_margin=10.0) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        pending = model.begin(BATCHES[0])
        step = expected.step(BATCHES[0])
    assert step.loss is not None  # of the second pass, which a calm batch does without
    assert pending.finish().loss == step.loss
    assert model.digest() == expected.digest()


def states_of(model: AdaptedModel, batches: Tensor) -> list[str]:
    return [(model.step(batch), model.digest())[1] for batch in batches]


@pytest.mark.parametrize("kind", [*KINDS, "eata"])
def test_a_snapshot_is_the_whole_state(kind: str) -> None:
    model = adapt(tiny_resnet(), "eata", source=[BATCHES[0]]) if kind == "eata" else build(kind)
    model.step(BATCHES[0])
    kept = model.snapshot()
    expected = states_of(model, BATCHES[1:])
    model.reset()
    model.return_to(kept)
    assert states_of(model, BATCHES[1:]) == expected
