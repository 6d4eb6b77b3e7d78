"""A step is a transaction: wherever it fails, the state afterwards is the state before, and a retry succeeds."""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast import adapt
from holdfast.estimators import ESTIMATORS
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_amaut, tiny_resnet
from holdfast.recipes import recipe_names
from holdfast.recovery import RECOVERIES
from holdfast.testing.comparison import first_difference
from holdfast.testing.faults import check_failed_steps
from holdfast.testing.trial import Trial

GENERATOR = torch.Generator().manual_seed(0)
BATCHES = [torch.rand(size, 3, 16, 16, generator=GENERATOR) for size in (8, 8, 5, 8)]
AUDIO = [torch.rand(size, 1_600, generator=GENERATOR) - 0.5 for size in (8, 8, 5, 8)]
# So that a step of eight samples learns from the memory more than once, and fewer views, which are slow.
OFTEN: dict[str, dict[str, Any]] = {
    "rotta": {"every_samples": 3},
    "note": {"every_samples": 3},
    "sotta": {"every_samples": 3, "min_confidence": 0.0},
    "cotta": {"views": 2},
    "guard": {"base": "tent"},
}


def build(name: str, *, audio: bool = False, **options: Any) -> AdaptedModel:
    network = tiny_amaut() if audio else tiny_resnet(widths=(8,))
    source = AUDIO[:1] if audio else BATCHES[:1]
    labels = torch.zeros(len(source[0]), dtype=torch.long)
    return adapt(network, name, source=source, holdout=[(source[0], labels)], **{**OFTEN.get(name, {}), **options})


@pytest.mark.parametrize("name", OFTEN)
def test_methods_with_a_memory_are_put_back_in_the_middle_of_learning(name: str) -> None:
    check_failed_steps(Trial(partial(build, name), BATCHES), points=8)


@pytest.mark.parametrize("options", [{"predicts": "after"}, {"predicts": "before", "optimizer": "adam"}])
def test_updates_before_and_after_the_prediction_are_put_back(options: dict[str, Any]) -> None:
    check_failed_steps(Trial(partial(build, "cpl", **options), BATCHES), points=8)


def in_turn(methods: list[str], others: list[str]) -> list[Any]:
    """Pair every method with every other name; those that are not next to each other in a round are slow."""
    return [
        pytest.param(name, other, marks=[] if row % len(methods) == column else [pytest.mark.slow])
        for row, other in enumerate(others)
        for column, name in enumerate(methods)
    ]


@pytest.mark.parametrize(("name", "recovery"), in_turn(["tent", "cotta", "unitta"], RECOVERIES.names()))
def test_every_recovery_is_put_back(name: str, recovery: str) -> None:
    options: dict[str, Any] = {"every_batches": 2} if recovery in ("periodic", "last_good") else {}
    check_failed_steps(Trial(partial(build, name, recovery=recovery, **options), BATCHES), points=4)


@pytest.mark.parametrize(("name", "estimator"), in_turn(["tent", "t3a", "rotta"], ESTIMATORS.names()))
def test_every_estimator_is_put_back(name: str, estimator: str) -> None:
    check_failed_steps(Trial(partial(build, name, estimator=estimator), BATCHES), points=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe_names())
def test_a_failure_at_every_module_call_is_undone(name: str) -> None:
    check_failed_steps(Trial(partial(build, name, estimator="anchored"), BATCHES), points=None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tent", "eata", "t3a", "dhauds", "guard"])  # a longer network, with layer norm
def test_a_failure_at_every_module_call_on_audio_is_undone(name: str) -> None:
    check_failed_steps(Trial(partial(build, name, audio=True, estimator="anchored"), AUDIO), points=None)


@contextmanager
def failing_optimizer(error: BaseException) -> Iterator[None]:
    """Let an optimiser fail after it has written everything."""
    own = torch.optim.SGD.step

    def step(optimizer: torch.optim.SGD, closure: None = None) -> None:
        own(optimizer, closure)
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.optim.SGD, "step", step)
        yield


def test_a_prediction_is_returned_when_the_update_fails(caplog: pytest.LogCaptureFixture) -> None:
    model = build("tent", estimator="softmax_score", optimizer="sgd")
    model(BATCHES[0])
    twin, expected = copy.deepcopy(model), copy.deepcopy(model).step(BATCHES[1])
    error = RuntimeError("out of memory")
    with failing_optimizer(error), caplog.at_level(logging.WARNING):
        step = model.step(BATCHES[1])
    assert torch.equal(step.logits, expected.logits)
    assert step.estimates == expected.estimates
    assert (step.loss, step.skipped) == (None, "RuntimeError: out of memory")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert first_difference(vars(twin), vars(model)) is None
    assert all(weight.grad is None for weight in model.method.trained)
    assert torch.equal(model(BATCHES[1]), expected.logits)
    assert torch.equal(model(BATCHES[2]), [twin(batch) for batch in BATCHES[1:3]][1])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_interrupts_are_raised_after_the_state_was_put_back(error: BaseException) -> None:
    model = build("tent", optimizer="sgd")
    model(BATCHES[0])
    twin = copy.deepcopy(model)
    with failing_optimizer(error), pytest.raises(type(error)):
        model.step(BATCHES[1])
    assert first_difference(vars(twin), vars(model)) is None


def test_a_step_that_fails_after_a_change_of_type_is_undone_exactly() -> None:
    model = build("tent", optimizer="sgd", momentum=0.9)
    model(BATCHES[0])
    model.double()
    with torch.no_grad():
        for weight in model.method.trained:
            weight += 1e-12  # which single precision does not have
    twin = copy.deepcopy(model)
    with failing_optimizer(RuntimeError("out of memory")):
        assert model.step(BATCHES[1].double()).skipped
    assert first_difference(vars(twin), vars(model)) is None
    assert torch.equal(model(BATCHES[2].double()), twin(BATCHES[2].double()))


def test_an_error_of_the_network_is_raised_as_it_is() -> None:
    model = build("tent")

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    handle = model.method.model.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match=r"^out of memory$"):
        model.step(BATCHES[0])
    handle.remove()
    assert torch.equal(model(BATCHES[0]), build("tent")(BATCHES[0]))


def test_logits_that_are_not_finite_take_statistics_back_but_not_a_reset() -> None:
    model = build("robust_bn", recovery="periodic", every_batches=2)
    head = model.method.model.head
    assert isinstance(head, torch.nn.Linear)
    for batch in BATCHES[:2]:
        model(batch)
    with torch.no_grad():
        head.weight.fill_(3e38)
    step = model.step(BATCHES[3])
    assert step.skipped == "non-finite logits"
    assert step.recovered == "2 batches since the last reset"
    moved = [
        name for name, source in model.method.origin.items() if not torch.equal(model.method.moving()[name], source)
    ]
    assert not moved, "statistics of a batch without a prediction were kept, or those of before the reset"
    assert model.step(BATCHES[3]).recovered is None, "the reset was not counted"


def test_a_model_that_is_called_in_the_middle_of_its_own_step_is_still_put_back() -> None:
    model = build("rotta")
    model(BATCHES[0])
    twin = copy.deepcopy(model)

    def look(*_: object) -> None:
        handle.remove()
        model.predict(BATCHES[2])

    assert model.method.model.head is not None
    handle = model.method.model.head.register_forward_pre_hook(look)  # of the student, which learns later
    assert model.step(BATCHES[1]).skipped, "what the inner call has written into is part of the gradient"
    assert first_difference(vars(twin), vars(model)) is None


def test_predicting_alone_changes_no_estimator_and_no_counter() -> None:
    model = build("unitta", estimator="anchored", recovery="regret")
    model(BATCHES[0])
    twin = copy.deepcopy(model)
    assert model.predict(BATCHES[1]).forwards > 0
    assert first_difference(vars(twin), vars(model)) is None


def test_a_process_forked_in_the_middle_of_a_step_has_the_state_before_it() -> None:
    model = build("robust_bn")
    model(BATCHES[0])
    twin = copy.deepcopy(model)
    inside, go_on = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        inside.set()
        go_on.wait(60)

    head = model.method.model.head
    assert head is not None
    handle = head.register_forward_pre_hook(wait)  # all statistics have moved by then
    stepping = threading.Thread(target=model.step, args=(BATCHES[1],))
    stepping.start()
    inside.wait(60)
    child = os.fork()
    if child == 0:
        handle.remove()
        os._exit(0 if torch.equal(model(BATCHES[2]), twin(BATCHES[2])) else 1)
    go_on.set()
    stepping.join()
    handle.remove()
    assert _exit_code(child, seconds=60) == 0
    assert torch.equal(model(BATCHES[2]), [twin(batch) for batch in BATCHES[1:3]][1])


def test_a_process_forked_with_a_pending_batch_has_the_state_before_it() -> None:
    model = build("robust_bn")
    model(BATCHES[0])
    twin = copy.deepcopy(model)
    pending = model.begin(BATCHES[1])
    child = os.fork()
    if child == 0:
        same = torch.equal(model(BATCHES[2]), twin(BATCHES[2])) and model.method.batches == twin.method.batches
        os._exit(0 if same else 1)
    assert _exit_code(child, seconds=60) == 0
    pending.finish()
    assert torch.equal(model(BATCHES[2]), [twin(batch) for batch in BATCHES[1:3]][1])


def test_predicting_alone_recovers_nothing() -> None:
    options = {"estimate": "softmax_score", "threshold": 1.1}  # which resets after every batch
    model = build("tent", estimator="softmax_score", recovery="estimate_drop", recovery_options=options)
    assert model.predict(BATCHES[0]).recovered is None
    assert model.step(BATCHES[0]).recovered is not None


def test_finishing_an_earlier_batch_again_leaves_a_later_one_pending() -> None:
    model = build("tent")
    first = model.begin(BATCHES[0])
    second = model.begin(BATCHES[1])  # which finishes the first
    before = [weight.detach().clone() for weight in model.method.trained]
    assert first.finish().loss is not None
    assert all(map(torch.equal, before, model.method.trained))
    second.finish()
    assert not all(map(torch.equal, before, model.method.trained))


def _exit_code(child: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


def test_rows_that_are_written_in_place_are_put_back() -> None:
    model = build("rotta")
    model(BATCHES[0])
    memory: Any = model.method.memory
    held: Tensor = memory.held
    before, address = held.clone(), held.data_ptr()
    model.predict(BATCHES[1])
    model(BATCHES[1])
    assert held.data_ptr() == address
    assert not torch.equal(held, before)
    assert vars(memory)["_overwritten"] is None, "rows are kept after the step has ended"
