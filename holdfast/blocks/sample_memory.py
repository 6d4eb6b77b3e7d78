"""Memories: a few inputs of the past, chosen without labels, to learn from again.

All are offered whole batches in order of arrival and hold their inputs in one tensor that is written to in place; which
sample goes where is decided on plain numbers.

>>> memory = ReservoirMemory(capacity=3)
>>> memory.offer(torch.arange(4.0).view(4, 1), torch.tensor([7, 1, 7, 7]))
>>> len(memory), memory.classes()
(3, [1, 7, 7])
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from holdfast.randomness import seed_for
from holdfast.records import Update
from holdfast.state import Stateful

__all__ = ["BalancedMemory", "Choices", "ConfidentMemory", "FifoMemory", "Memory", "ReservoirMemory"]

Choices = Literal["random", "first"]


class Memory(Stateful):
    """Holds up to `capacity` inputs under their predicted classes; a subclass says which ones.

    It is learnt from whenever `every_samples` more were offered, or after every batch where that is None. Random
    choices depend on the seed and the number of samples offered before, not on how these came in batches;
    `choices="first"` takes the first of what there is to choose from instead, and the middle of a range.
    """

    draws: random.Random | None = None  # instead of the seed: with Python's own generator, the official code's choices
    held: Tensor | None
    slots: dict[int, list[int]]
    offers: int

    def __init__(
        self, *, capacity: int = 64, every_samples: int | None = 64, seed: int = 0, choices: Choices = "random"
    ) -> None:
        super().__init__()
        if capacity < 1 or (every_samples is not None and every_samples < 1):
            raise ValueError(
                f"a memory of capacity={capacity} with every_samples={every_samples} teaches nothing; pass whole "
                "numbers of at least 1"
            )
        if choices not in get_args(Choices):
            raise ValueError(f"choices={choices!r} is not known; choose 'random' or 'first'")
        self.capacity, self.every_samples, self.seed, self.choices = capacity, every_samples, seed, choices
        self.add_state("held", None)  # (capacity, ...), made for the first inputs that are offered
        self.add_state("slots", {})  # class -> places in `held`, the oldest first; no class is empty
        self.add_state("offers", 0)  # samples offered so far, which is also the clock

    def __len__(self) -> int:
        return sum(map(len, self.slots.values()))

    def offer(self, inputs: Tensor, classes: Tensor, scores: Tensor | None = None) -> None:
        """Take what is wanted of a batch; scores are uncertainties or confidences, where a memory asks for them."""
        if self.held is None:
            self.held = inputs.new_zeros(self.capacity, *inputs.shape[1:])
        if self.held.shape[1:] != inputs.shape[1:]:
            shapes = f"{tuple(self.held.shape[1:])} and cannot take {tuple(inputs.shape[1:])}"
            raise ValueError(f"the memory holds inputs of shape {shapes}; bring all inputs to one shape, or reset")
        written: dict[int, int] = {}  # slot -> sample, the last one where several came and went
        values = [0.0] * len(inputs) if scores is None else scores.tolist()
        for sample, (label, score) in enumerate(zip(classes.tolist(), values, strict=True)):
            slot = self._admit(label, score)
            self.offers += 1
            if slot is not None:
                written[slot] = sample
        if written:
            self.held[list(written)] = inputs.detach()[list(written.values())]

    def feed(
        self, inputs: Tensor, classes: Tensor, scores: Tensor | None = None, *, learn: Callable[[], Update]
    ) -> Update:
        """Offer a batch, learn at every sample that ends a period, and return the last update."""
        update, start = Update(), 0
        while start < len(inputs):
            ahead = len(inputs) if self.every_samples is None else self.every_samples - self.offers % self.every_samples
            part = slice(start, start + ahead)
            self.offer(inputs[part], classes[part], None if scores is None else scores[part])
            start += ahead
            if start <= len(inputs):
                update = learn()
        return update

    def inputs(self) -> Tensor:
        """Return the inputs held, class by class and the oldest first; without any, a tensor of length 0."""
        return torch.empty(0) if self.held is None else self.held[self._order()]

    def classes(self) -> list[int]:
        """Return the classes under which the inputs are held, in the order of `inputs`."""
        return [label for label in sorted(self.slots) for _ in self.slots[label]]

    @abstractmethod
    def _admit(self, label: int, score: float) -> int | None:
        """Return the slot for one sample, or None where it is not wanted."""

    def _order(self) -> list[int]:
        return [slot for label in sorted(self.slots) for slot in self.slots[label]]

    def _full(self) -> bool:
        return len(self) == self.capacity

    def _largest(self) -> list[int]:
        """Return the classes with most inputs, in ascending order."""
        most = max(map(len, self.slots.values()))
        return sorted(label for label, slots in self.slots.items() if len(slots) == most)

    def _add(self, label: int) -> int:
        """Take the next free slot: they are used up in order, and one that is left is taken over at once."""
        slot = len(self)
        self.slots.setdefault(label, []).append(slot)
        return slot

    def _replace(self, old_label: int, place: int, label: int) -> int:
        """Take over the slot of one item of a class."""
        slot = self.slots[old_label].pop(place)
        self.slots.setdefault(label, []).append(slot)
        if not self.slots[old_label]:
            del self.slots[old_label]
        return slot

    def _uniform(self, purpose: str, otherwise: float) -> float:
        """Return a number in [0, 1) of the next sample's own."""
        if self.choices == "first":
            return otherwise
        if self.draws is not None:
            return self.draws.random()
        return (seed_for(self.seed, f"memory/{purpose}", self.offers) >> 10) / 2**53

    def _pick(self, items: Sequence[int], purpose: str) -> int:
        if self.draws is not None:
            return self.draws.choice(items)
        return items[int(self._uniform(purpose, 0.0) * len(items))]

    def _replace_any(self, old_label: int, label: int) -> int:
        return self._replace(old_label, self._pick(range(len(self.slots[old_label])), "item"), label)


class FifoMemory(Memory):
    """Holds the newest inputs in order of arrival, all as one class, whatever was predicted."""

    def _admit(self, label: int, score: float) -> int:
        return self._replace(0, 0, 0) if self._full() else self._add(0)


class BalancedMemory(Memory):
    """CSTU: category-balanced, and within a class the newest and surest stay (Yuan et al., CVPR 2023).

    Scores are uncertainties in nats. The quota of a class is the capacity divided by the number of classes, and holds
    while there is room, too; with `fill_first` it holds only from when there is none, as in SoTTA's and AETTA's copies.
    """

    uncertainties: list[float]
    times: list[int]

    def __init__(
        self,
        num_classes: int,
        *,
        timeliness_weight: float = 1.0,
        uncertainty_weight: float = 1.0,
        fill_first: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.quota = self.capacity / num_classes
        self.timeliness_weight = timeliness_weight  # λ_t
        self.uncertainty_weight = uncertainty_weight / math.log(max(num_classes, 2))  # λ_u / ln C
        self.fill_first = fill_first
        self.add_state("uncertainties", [0.0] * self.capacity)  # by slot, as all that follows
        self.add_state("times", [0] * self.capacity)  # of the offer; the age is what the clock has gone on since

    def ages(self) -> Tensor:
        """Return how many samples were offered since each input, itself included, in the order of `inputs`."""
        dtype, device = (None, None) if self.held is None else (self.held.dtype, self.held.device)
        return torch.tensor([self.offers - self.times[slot] for slot in self._order()], dtype=dtype, device=device)

    def _admit(self, label: int, score: float) -> int | None:
        slot = self._find(label, score)
        if slot is not None:
            self.uncertainties[slot], self.times[slot] = score, self.offers
        return slot

    def _find(self, label: int, uncertainty: float) -> int | None:
        has_quota = len(self.slots.get(label, ())) < self.quota
        if not self._full() and (has_quota or self.fill_first):
            return self._add(label)
        pool = self._largest() if has_quota else [label]
        worst, old_label, place = max(
            (self._badness(self.offers - self.times[slot], self.uncertainties[slot]), old_label, place)
            for old_label in pool
            for place, slot in enumerate(self.slots[old_label])
        )
        return self._replace(old_label, place, label) if worst > self._badness(0, uncertainty) else None

    def _badness(self, age: int, uncertainty: float) -> float:
        timeliness = 1 / (1 + math.exp(-age / self.capacity))
        return self.timeliness_weight * timeliness + self.uncertainty_weight * uncertainty


class ConfidentMemory(Memory):
    """HUS: takes confident samples only, and makes room in the largest class (Gong et al., NeurIPS 2023).

    Scores are confidences.
    """

    def __init__(self, *, min_confidence: float, **options: Any) -> None:
        super().__init__(**options)
        self.min_confidence = min_confidence  # C_0

    def _admit(self, label: int, score: float) -> int | None:
        if score < self.min_confidence:
            return None
        if not self._full():
            return self._add(label)
        largest = self._largest()
        return self._replace_any(label if label in largest else self._pick(largest, "class"), label)


class ReservoirMemory(Memory):
    """PBRS: a reservoir that is fair in time within each class, and to the classes (Gong et al., NeurIPS 2022)."""

    seen: dict[int, int]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("seen", {})  # class -> samples ever predicted as it, n_c

    def _admit(self, label: int, score: float) -> int | None:
        self.seen[label] = self.seen.get(label, 0) + 1
        if not self._full():
            return self._add(label)
        largest = self._largest()
        if label not in largest:
            return self._replace_any(self._pick(largest, "class"), label)
        share = len(self.slots[label]) / self.seen[label]
        return self._replace_any(label, label) if self._uniform("chance", 0.5) <= share else None
