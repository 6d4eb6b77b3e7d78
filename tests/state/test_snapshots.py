"""Snapshots, digests and checks of state: what they hold, what they tell apart, and what they refuse."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from holdfast.state import (
    Copies,
    Inventory,
    Savepoint,
    Stateful,
    check_saved,
    contents,
    put_back,
    snapshot_of,
    state_digest,
)


class Counter(Stateful):
    """Counts, and keeps what it was fitted to."""

    seen: int
    fitted: int
    mean: torch.Tensor
    sizes: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("seen", 0)
        self.add_state("sizes", [])
        self.add_state("fitted", 1, kept=True)
        self.add_state("mean", torch.zeros(2))


@pytest.mark.parametrize(("kept", "fitted"), [(False, 2), (True, 1)])
def test_what_survives_a_reset_is_part_of_a_snapshot_only_if_it_is_asked_for(kept: bool, fitted: int) -> None:
    counter = Counter()
    before = snapshot_of(counter, {}, kept=kept)
    counter.seen, counter.fitted = 5, 2
    put_back(counter, before["declared"])
    assert (counter.seen, counter.fitted) == (0, fitted)


def test_a_reset_after_a_change_of_type_has_the_new_type() -> None:
    counter = Counter().double()
    counter.reset_state()
    assert counter.mean.dtype == torch.float64


def test_what_is_appended_after_a_reset_is_not_in_the_next_one() -> None:
    counter = Counter()
    for _ in range(2):
        counter.reset_state()
        assert counter.sizes == []
        counter.sizes.append(8)


def test_equal_bytes_of_another_type_have_another_digest() -> None:
    digests = {state_digest({"mean": torch.zeros(2, dtype=dtype)}) for dtype in (torch.float32, torch.int32)}
    assert len(digests) == 2


def test_the_digest_of_a_view_is_that_of_its_values() -> None:
    values = torch.arange(6.0)
    for view in (values[::2], values.view(2, 3).T, values[0], values[:0]):
        assert state_digest({"mean": view}) == state_digest({"mean": view.clone(memory_format=torch.contiguous_format)})


def test_a_plain_number_that_is_not_finite_is_refused() -> None:
    expected = {"tensors": {}, "declared": {"": {"total": 0.0}}}
    check_saved({"tensors": {}, "declared": {"": {"total": 1.0}}}, expected, torch.float32)
    with pytest.raises(ValueError, match="not finite"):
        check_saved({"tensors": {}, "declared": {"": {"total": math.inf}}}, expected, torch.float32)


class Trained(Stateful):
    """Trains one weight by an optimiser of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.5, momentum=0.9)


def test_a_savepoint_puts_back_all_that_an_optimiser_knows() -> None:
    trained = Trained()
    trained.weight.grad = torch.ones(2)
    trained.optimizer.step()
    before = copy.deepcopy(trained.optimizer.state_dict())
    savepoint = Savepoint(contents([trained]))
    trained.optimizer.param_groups[0].update(lr=7.0, later=True)
    trained.optimizer.step()
    savepoint.restore()
    after = trained.optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert torch.equal(after["state"][0]["momentum_buffer"], before["state"][0]["momentum_buffer"])


class Memory(Stateful):
    """Writes into rows."""

    writes_rows = True
    slots: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("slots", torch.zeros(3))


def test_what_can_change_is_looked_for_again_when_a_module_is_replaced() -> None:
    inventory, network = Inventory(), torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    first = inventory.of(network)
    assert inventory.of(network) is first
    network[0] = torch.nn.BatchNorm1d(2)
    assert inventory.of(network).buffers[0] is network[0].running_mean
    other = torch.nn.Sequential(network[0])
    assert inventory.of(other).modules[0] is other


def test_copies_follow_tensors_that_are_replaced_and_those_that_are_written_into() -> None:
    copies, kept, replaced = Copies(), torch.ones(2), torch.ones(3)
    copies.take([kept, replaced], changed_only=True)
    kept.add_(1)
    pairs = copies.take([torch.zeros(3), kept], changed_only=True)
    assert [copied.tolist() for _, copied in pairs] == [[0.0, 0.0, 0.0], [2.0, 2.0]]
    assert copies.take([pairs[0][0], kept], changed_only=True)[1][1] is pairs[1][1]


def test_the_end_of_an_inner_savepoint_leaves_the_rows_of_the_outer_one() -> None:
    memory = Memory()
    outer = Savepoint(contents([memory]))
    memory.write_rows(memory.slots, [0], torch.ones(1))
    Savepoint(contents([memory])).release()
    memory.write_rows(memory.slots, [1], torch.ones(1))
    outer.restore()
    assert memory.slots.tolist() == [0, 0, 0]
