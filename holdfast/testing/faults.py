"""Contracts under faults: errors in the middle of a step, unusable inputs, several threads, half precision."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from holdfast.model.adapted import AdaptedModel
from holdfast.model.input_range import magnitude
from holdfast.records import Step
from holdfast.testing.comparison import assert_equal, first_difference
from holdfast.testing.contract import InjectedError
from holdfast.testing.trial import Trial


def check_failed_steps(trial: Trial, *, points: int | None = 3) -> None:
    """An error in a step leaves everything as it was, wherever it is raised; a retry is as if it had never happened.

    It is raised at some of the module calls, evenly spread (`points=None`: at all of them), and after the very last
    thing that a step does. The prediction is returned if there was one.
    """
    model, untouched, batch = trial.adapted(), trial.before_the_last, trial.batches[-1]
    calls = module_calls(lambda: trial.adapted().step(batch))
    chosen = (
        range(calls) if points is None else sorted({number * (calls - 1) // (points - 1) for number in range(points)})
    )
    for call in chosen:
        with failing_at(call):
            _attempt(model, batch)
        _assert_untouched(untouched, model, f"an error at module call {call} of {calls}")
    with _failing_in_the_end(model):
        assert _attempt(model, batch) is not None, "the prediction was lost when the recovery failed"
    _assert_untouched(untouched, model, "an error at the end of a step")
    assert_equal(trial.predictions[-1:], [model(batch)], "predictions after failed steps")
    assert_equal([trial.next_prediction], [model(trial.batches[0])], "predictions after a retried step")


def check_empty_batch(trial: Trial) -> None:
    """Empty batches, single samples without a batch axis, arrays and lists are refused, and change nothing."""
    model, untouched, batch = trial.adapted(), trial.before_the_last, trial.batches[-1]
    unusable: list[Any] = [batch[:0], batch[0], batch.numpy(), batch.tolist()]
    for inputs in unusable:
        refusal = _refusal(model, inputs)
        assert refusal is not None, f"{type(inputs).__name__} that is no batch was not refused"
        assert "\n" not in refusal, f"the refusal is more than one sentence: {refusal}"
        _assert_untouched(untouched, model, "inputs that are no batch")
    assert_equal(trial.predictions[-1:], [model(batch)], "predictions after inputs that were no batch")


def check_far_inputs(trial: Trial) -> None:
    """Inputs far out of the usual range are predicted, reported and not adapted to."""
    model, batch = trial.adapted(), trial.batches[-1]
    before = copy.deepcopy(model.method.state_dict())
    for factor in (100 * max(1.0, *(float(magnitude(batch)) for batch in trial.batches)), 1e10):
        step = model.step(batch * factor)
        assert step.skipped, f"inputs {factor:g} times too large were not reported"
        assert step.loss is None, f"inputs {factor:g} times too large were adapted to"
        assert step.logits.shape == trial.predictions[-1].shape, "there is no prediction for inputs far out of range"
        difference = first_difference(before, model.method.state_dict())
        assert difference is None, f"inputs {factor:g} times too large changed {difference}"
    assert_equal(trial.predictions[-1:], [model(batch)], "predictions after inputs far out of range")


def check_threads(trial: Trial) -> None:
    """Calls from several threads are carried out one after the other: in that order, another object does the same."""
    model, other, work = trial.unused(), trial.unused(), trial.batches
    order: list[int] = []
    steps: dict[int, Step] = {}
    own = model.recovery.begin
    names = threading.local()

    def begin(method: Any) -> str | None:
        order.append(names.number)
        return own(method)

    def run(numbers: range) -> None:
        for number in numbers:
            names.number = number
            steps[number] = model.step(work[number])

    threads = [threading.Thread(target=run, args=(range(first, len(work), 2),)) for first in range(2)]
    vars(model.recovery)["begin"] = begin
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        del vars(model.recovery)["begin"]
    assert len(steps) == len(work), "a step failed in a thread"
    expected = [other.step(work[number]) for number in order]
    assert_equal(
        [step.logits for step in expected], [steps[number].logits for number in order], "predictions in threads"
    )


def check_autocast(trial: Trial) -> None:
    """Under bfloat16 autocast all steps succeed, and weights and statistics keep their type and stay finite."""
    model, batches = trial.unused(), trial.batches
    before = {name: tensor.dtype for name, tensor in model.method.moving().items()}
    with torch.autocast(batches[0].device.type, dtype=torch.bfloat16):
        for batch in batches:
            step = model.step(batch)
            assert step.skipped is None, f"a step under autocast was skipped: {step.skipped}"
            assert torch.isfinite(step.logits).all(), "non-finite logits under autocast"
    for name, tensor in model.method.moving().items():
        assert tensor.dtype == before[name], f"{name} became {tensor.dtype} under autocast"
        assert torch.isfinite(tensor).all(), f"{name} is not finite after autocast"


def module_calls(run: Callable[[], object]) -> int:
    """Return how many modules are called, and wrapped in one another, while a function runs.

    >>> network = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> module_calls(lambda: network(torch.zeros(1, 2)))
    3
    """
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    with register_module_forward_pre_hook(count):
        run()
    return calls


@contextmanager
def failing_at(call: int) -> Iterator[None]:
    """Raise an error at one call of any module, counted from 0 when the block begins."""
    calls = 0

    def fail(module: nn.Module, _: object) -> None:
        nonlocal calls
        calls += 1
        if calls == call + 1:
            raise InjectedError(f"injected into {type(module).__name__}")

    with register_module_forward_pre_hook(fail):
        yield


@contextmanager
def _failing_in_the_end(model: AdaptedModel) -> Iterator[None]:
    own = model.recovery.recover

    def recover(method: Any, step: Step) -> None:
        own(method, step)
        method.reset()
        raise InjectedError("injected into the recovery")

    vars(model.recovery)["recover"] = recover
    try:
        yield
    finally:
        del vars(model.recovery)["recover"]


def _attempt(model: AdaptedModel, batch: Tensor) -> Tensor | None:
    """Return the prediction of a step that fails, if it got as far as that."""
    try:
        step = model.step(batch)
    except InjectedError:
        return None
    assert step.skipped, "an error in the update was not reported"
    assert "injected" in step.skipped, f"another error was reported: {step.skipped}"
    return step.logits


def _refusal(model: AdaptedModel, inputs: Any) -> str | None:
    try:
        model.step(inputs)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def _assert_untouched(untouched: AdaptedModel, model: AdaptedModel, what: str) -> None:
    difference = first_difference(vars(untouched), vars(model))
    assert difference is None, f"{what} changed {difference}"
