"""Memories hold the samples that their papers prescribe, independently of the batch size."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.blocks.sample_memory import BalancedMemory, ConfidentMemory, FifoMemory, Memory, ReservoirMemory
from holdfast.records import Update
from holdfast.state import read_state, write_state

CLASSES = 5
CAPACITY = 12

BUILDS: dict[str, Callable[..., Memory]] = {
    "fifo": FifoMemory,
    "balanced": lambda **options: BalancedMemory(CLASSES, **options),
    "confident": lambda **options: ConfidentMemory(min_confidence=0.4, **options),
    "reservoir": ReservoirMemory,
}


def samples(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs that encode their index, class-correlated labels, and coarse scores, so that ties occur."""
    rng = np.random.default_rng(seed)
    classes = np.repeat(rng.integers(0, CLASSES, count), 3)[:count]
    scores = rng.integers(0, 11, count) / 10
    inputs = torch.arange(float(count)).view(-1, 1, 1).expand(-1, 2, 3)
    return inputs, torch.from_numpy(classes), torch.from_numpy(scores)


def offered(memory: Memory, batch_size: int, count: int = 400) -> Memory:
    for inputs, classes, scores in zip(*(part.split(batch_size) for part in samples(count)), strict=True):
        memory.offer(inputs, classes, scores)
    return memory


def held(memory: Memory) -> list[int]:
    return memory.inputs()[:, 0, 0].int().tolist()


# Reference implementations: the rules of the papers, one sample at a time.


def cstu(count: int, *, fill_first: bool) -> tuple[list[int], list[int], list[int]]:
    """Return the samples, classes and ages held after all samples were offered."""
    lists: dict[int, list[dict[str, Any]]] = {label: [] for label in range(CLASSES)}

    def score(item: dict[str, Any]) -> float:
        return 1 / (1 + math.exp(-item["age"] / CAPACITY)) + item["uncertainty"] / math.log(CLASSES)

    for sample, (label, uncertainty) in enumerate(zip(*(part.tolist() for part in samples(count)[1:]), strict=True)):
        full = sum(map(len, lists.values())) >= CAPACITY
        within_quota = len(lists[label]) < CAPACITY / CLASSES
        if not full and (within_quota or fill_first):
            pool = []
        elif within_quota:
            most = max(map(len, lists.values()))
            pool = [other for other in lists if len(lists[other]) == most]
        else:
            pool = [label]
        new = {"sample": sample, "uncertainty": uncertainty, "age": 0}
        held = [(score(item), other, index) for other in pool for index, item in enumerate(lists[other])]
        badness, other, index = max(held, default=(math.inf, None, None))  # the last of equals
        if badness > score(new):
            if other is not None:
                del lists[other][index]
            lists[label].append(new)
        for items in lists.values():
            for item in items:
                item["age"] += 1
    flat = [(item["sample"], label, item["age"]) for label in lists for item in lists[label]]
    return tuple(map(list, zip(*flat, strict=True)))  # type: ignore[return-value]


def hus_or_pbrs(count: int, *, reservoir: bool) -> list[int]:
    """Return the samples held, choosing the first class and the oldest item on ties, and u = 0.5."""
    lists: dict[int, list[int]] = {label: [] for label in range(CLASSES)}
    seen = dict.fromkeys(range(CLASSES), 0)
    for sample, (label, score) in enumerate(zip(*(part.tolist() for part in samples(count)[1:]), strict=True)):
        if not reservoir and score < 0.4:
            continue
        seen[label] += 1
        if sum(map(len, lists.values())) >= CAPACITY:
            most = max(map(len, lists.values()))
            largest = [other for other in lists if len(lists[other]) == most]
            if label not in largest:
                del lists[largest[0]][0]
            elif not reservoir or len(lists[label]) / seen[label] >= 0.5:
                del lists[label][0]
            else:
                continue
        lists[label].append(sample)
    return [sample for label in lists for sample in lists[label]]


@pytest.mark.parametrize("fill_first", [False, True])
@pytest.mark.parametrize("count", [5, 14, 60, 400])
def test_the_balanced_memory_follows_its_rules(count: int, fill_first: bool) -> None:
    memory = offered(BalancedMemory(CLASSES, capacity=CAPACITY, fill_first=fill_first), 7, count)
    assert isinstance(memory, BalancedMemory)
    assert (held(memory), memory.classes(), memory.ages().int().tolist()) == cstu(count, fill_first=fill_first)


def test_the_quota_holds_before_the_balanced_memory_is_full_unless_it_fills_first() -> None:
    inputs, ones = torch.zeros(20, 1), torch.ones(20, dtype=torch.long)
    for fill_first, kept in ((False, 3), (True, 12)):  # 12 / 5 = 2.4: a class may reach 3
        memory = BalancedMemory(CLASSES, capacity=CAPACITY, fill_first=fill_first)
        memory.offer(inputs, ones, torch.linspace(1, 0, 20))
        assert len(memory) == kept


def test_the_balanced_memory_prefers_what_it_has_to_its_equal() -> None:
    memory = BalancedMemory(2, capacity=2, timeliness_weight=0.0)
    memory.offer(torch.arange(3.0).view(-1, 1, 1), torch.zeros(3, dtype=torch.long), torch.tensor([0.5, 0.5, 0.4]))
    assert held(memory) == [2]
    memory.offer(torch.full((1, 1, 1), 3.0), torch.zeros(1, dtype=torch.long), torch.tensor([0.4]))
    assert held(memory) == [2]


@pytest.mark.parametrize("count", [5, 14, 60, 400])
def test_the_confident_memory_follows_its_rules(count: int) -> None:
    memory = offered(ConfidentMemory(min_confidence=0.4, capacity=CAPACITY, choices="first"), 7, count)
    assert held(memory) == hus_or_pbrs(count, reservoir=False)


@pytest.mark.parametrize("count", [5, 14, 60, 400])
def test_the_reservoir_follows_its_rules(count: int) -> None:
    memory = offered(ReservoirMemory(capacity=CAPACITY, choices="first"), 7, count)
    assert held(memory) == hus_or_pbrs(count, reservoir=True)


def test_the_newest_are_held_in_order_of_arrival() -> None:
    assert held(offered(FifoMemory(capacity=4), 3, 10)) == [6, 7, 8, 9]


@pytest.mark.parametrize("name", BUILDS)
def test_what_is_held_does_not_depend_on_how_samples_come_in_batches(name: str) -> None:
    alone, some, all_at_once = (offered(BUILDS[name](capacity=CAPACITY), size) for size in (1, 7, 400))
    assert held(alone) == held(some) == held(all_at_once)


@pytest.mark.parametrize("name", ["confident", "reservoir"])
def test_random_choices_depend_on_the_seed(name: str) -> None:
    one, same, other = (held(offered(BUILDS[name](capacity=CAPACITY, seed=seed), 7)) for seed in (0, 0, 1))
    assert one == same != other


def test_the_reservoir_is_fair_in_time() -> None:
    """Within one class every sample is held with the same probability, capacity / samples seen."""
    runs, capacity, count = 200, 10, 100
    counts = np.zeros(count)
    for seed in range(runs):
        memory = ReservoirMemory(capacity=capacity, seed=seed)
        memory.offer(torch.arange(float(count)).view(-1, 1, 1), torch.zeros(count, dtype=torch.long))
        counts[held(memory)] += 1
    fifths = counts.reshape(5, 20).sum(1) / (runs * 20)
    np.testing.assert_allclose(fifths, capacity / count, atol=4 * math.sqrt(0.1 * 0.9 / (runs * 20)))


@pytest.mark.parametrize("name", BUILDS)
def test_saved_and_loaded_it_goes_on_the_same_and_reset_it_starts_again(name: str, tmp_path: Path) -> None:
    memory = offered(BUILDS[name](capacity=CAPACITY), 7, 100)
    write_state(tmp_path / "memory", memory.state_dict(), {})
    loaded = BUILDS[name](capacity=CAPACITY)
    loaded.load_state_dict(read_state(tmp_path / "memory")[0])
    assert held(offered(loaded, 7)) == held(offered(memory, 7))
    assert loaded.offers == 500
    memory.reset_state()
    assert len(memory) == 0
    assert held(offered(memory, 7)) == held(offered(BUILDS[name](capacity=CAPACITY), 7))


@pytest.mark.parametrize("name", BUILDS)
def test_it_holds_copies_in_one_tensor_that_never_grows(name: str) -> None:
    memory = BUILDS[name](capacity=CAPACITY)
    batch = torch.rand(50, 2, 3)
    memory.offer(batch, torch.arange(50) % CLASSES, torch.full((50,), 0.5))
    assert memory.held is not None
    address, alive = memory.held.data_ptr(), weakref.ref(batch)
    del batch
    offered(memory, 50, 1000)
    assert alive() is None
    assert memory.held.data_ptr() == address
    assert len(memory) <= len(memory.held) == CAPACITY
    assert all(memory.slots.values())
    assert sorted(slot for slots in memory.slots.values() for slot in slots) == list(range(len(memory)))


def test_an_empty_memory_returns_no_inputs() -> None:
    memory = ConfidentMemory(min_confidence=0.9)
    assert len(memory.inputs()) == len(memory) == 0
    memory.offer(*samples(8)[:2], torch.zeros(8))
    assert memory.inputs().shape == (0, 2, 3)


@pytest.mark.parametrize(("every", "sizes", "due"), [(4, [3, 3, 10], [4, 8, 12, 16]), (None, [3, 5], [3, 8])])
def test_learning_is_due_at_every_period_inside_a_batch_too(
    every: int | None, sizes: list[int], due: list[int]
) -> None:
    memory = FifoMemory(capacity=2, every_samples=every)
    seen: list[int] = []

    def learn() -> Update:
        seen.append(memory.offers)
        return Update(loss=float(memory.offers))

    updates = []
    for inputs, classes in zip(*(part.split(sizes) for part in samples(sum(sizes))[:2]), strict=True):
        updates.append(memory.feed(inputs, classes, learn=learn).loss)
    assert seen == due
    assert updates[-1] == due[-1]
    assert (updates[0] is None) == (every is not None)


def test_impossible_options_and_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        FifoMemory(capacity=0)
    with pytest.raises(ValueError, match="at least 1"):
        FifoMemory(every_samples=0)
    with pytest.raises(ValueError, match="'random' or 'first'"):
        FifoMemory(choices="last")  # type: ignore[arg-type]
    memory = offered(FifoMemory(), 8, 8)
    with pytest.raises(ValueError, match=r"shape \(2, 3\), got \(4,\)"):
        memory.offer(torch.zeros(1, 4), torch.zeros(1, dtype=torch.long))
