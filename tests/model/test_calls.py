"""A step is short: how many calls inside the package it makes, comprehensions and resumed generators included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import holdfast
from holdfast import AdaptedModel, adapt, guard
from holdfast.models import load

PACKAGE = str(Path(holdfast.__file__).parent)
BATCH = torch.rand(64, 3, 32, 32, generator=torch.Generator().manual_seed(0))
WARM = 8  # steps, after which the guard has compared source and anchor often enough


@contextmanager
def counting() -> Iterator[list[str]]:
    """Collect the names of the functions of the package that are called inside the block."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            names.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(before)


class Operations(TorchDispatchMode):
    """Counts the operations of torch inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        return operation(*args, **(kwargs or {}))


def calls_of(model: AdaptedModel) -> list[int]:
    """Return the number of calls in each of four warm steps: the guard looks back at one of them."""
    for _ in range(WARM):
        model.step(BATCH)
    counts = []
    for _ in range(4):
        with counting() as names:
            model.step(BATCH)
        counts.append(len(names))
    return counts


def test_a_step_of_tent_makes_at_most_130_calls() -> None:
    assert max(calls_of(adapt(load("digits_resnet"), "tent"))) <= 130


@pytest.mark.parametrize("source", [None, [BATCH]])
@pytest.mark.filterwarnings("ignore::holdfast.records.SetupWarning")
def test_a_step_of_guarded_tent_makes_at_most_525_calls(source: list[torch.Tensor] | None) -> None:
    assert max(calls_of(guard(load("digits_resnet"), "tent", source=source))) <= 525


@pytest.mark.parametrize(("recipe", "most"), [("source", 57), ("blend", 442), ("unitta", 854)])
def test_operations_of_a_single_sample(recipe: str, most: int) -> None:
    """A bare forward is 43 of them; of `blend` 14 more are at each of the 9 layers that follow their inputs."""
    model = adapt(load("digits_resnet"), recipe, source=[BATCH] if recipe == "blend" else None)
    for _ in range(WARM):
        model.step(BATCH[:1])
    with Operations() as counted:
        model.step(BATCH[:1])
    assert counted.number <= most


def test_python_beside_the_pass_of_a_single_sample() -> None:
    """What a step may change is looked for once: an unchanged module costs later steps no call of Python or of C."""
    model = adapt(load("digits_resnet"), "source")
    for _ in range(WARM):
        model.step(BATCH[:1])
    with torch.no_grad():
        steps, passes = (calls_of_any_kind(call) for call in (model.step, model.method.model))
    assert steps - passes <= 580


def calls_of_any_kind(call: Callable[[torch.Tensor], object]) -> int:
    """Return the number of calls of functions of Python and of C while a sample is predicted."""
    events: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda _, event, __: events.append(event) if event in ("call", "c_call") else None)
    try:
        call(BATCH[:1])
    finally:
        sys.setprofile(before)
    return len(events)


@pytest.mark.filterwarnings("ignore::holdfast.records.SetupWarning")
@pytest.mark.parametrize("guarded", [False, True])
def test_the_lock_is_taken_once_and_inputs_are_read_once(guarded: bool) -> None:
    model = guard(load("digits_resnet"), "tent") if guarded else adapt(load("digits_resnet"), "tent")
    for use, locks in ((model.step, 1), (lambda batch: model.begin(batch).finish(), 2)):
        with counting() as names:
            use(BATCH)
        assert sum(name.endswith("transaction.py:__enter__") for name in names) == locks
        assert sum(name.endswith("inputs.py:single_input") for name in names) == 1
