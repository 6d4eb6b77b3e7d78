"""Memories of past inputs, selected without labels, for methods that train on them.

Batches are offered in order of arrival. The inputs are stored in one tensor that is written in place; which sample goes
to which slot is decided with plain Python numbers.

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

Choices = Literal["random", "first"]


class Memory(Stateful):
    """Hold up to `capacity` inputs under their predicted classes; a subclass selects them.

    A method trains on it after every `every_samples` samples offered, or after every batch if that is None. Random
    choices depend on the seed and the number of samples offered before, not on the batch size; `choices="first"` takes
    the first candidate, and the middle of a range, instead.
    """

    writes_rows = True
    draws: random.Random | None = None  # replaces the seed: Python's generator reproduces the official code's choices
    held: Tensor | None
    slots: dict[int, list[int]]
    offers: int

    def __init__(
        self, *, capacity: int = 64, every_samples: int | None = 64, seed: int = 0, choices: Choices = "random"
    ) -> None:
        super().__init__()
        if capacity < 1 or (every_samples is not None and every_samples < 1):
            raise ValueError(f"capacity and every_samples must be at least 1, got {capacity} and {every_samples}")
        if choices not in get_args(Choices):
            raise ValueError(f"choices must be 'random' or 'first', got {choices!r}")
        self.capacity, self.every_samples, self.seed, self.choices = capacity, every_samples, seed, choices
        self.add_state("held", None)  # (capacity, ...), allocated for the first inputs offered
        self.add_state("slots", {})  # class -> indices into `held`, the oldest first; classes without inputs are absent
        self.add_state("offers", 0)  # samples offered so far; also the clock

    def __len__(self) -> int:
        return sum(map(len, self.slots.values()))

    def offer(self, inputs: Tensor, classes: Tensor, scores: Tensor | None = None) -> None:
        """Offer a batch; scores are uncertainties or confidences, for the memories that need them."""
        if self.held is None:
            self.held = inputs.new_zeros(self.capacity, *inputs.shape[1:])
        if self.held.shape[1:] != inputs.shape[1:]:
            held, offered = tuple(self.held.shape[1:]), tuple(inputs.shape[1:])
            raise ValueError(
                f"the memory holds inputs of shape {held}, got {offered}; resize all inputs to one shape, or reset"
            )
        written: dict[int, int] = {}  # slot -> the last sample written to it
        values = [0.0] * len(inputs) if scores is None else scores.tolist()
        for sample, (label, score) in enumerate(zip(classes.tolist(), values, strict=True)):
            slot = self._admit(label, score)
            self.offers += 1
            if slot is not None:
                written[slot] = sample
        if written:
            self.write_rows(self.held, list(written), inputs.detach()[list(written.values())])

    def feed(
        self, inputs: Tensor, classes: Tensor, scores: Tensor | None = None, *, learn: Callable[[], Update]
    ) -> Update:
        """Offer a batch, call `learn` after every `every_samples` samples, and return the last update."""
        update, start = Update(), 0
        if scores is None:
            classes = classes.cpu()  # where they are selected, at once
        else:  # exact: both fit into double precision
            classes, scores = torch.stack([classes.double(), scores.double()]).cpu()
            classes = classes.long()
        while start < len(inputs):
            ahead = len(inputs) if self.every_samples is None else self.every_samples - self.offers % self.every_samples
            part = slice(start, start + ahead)
            self.offer(inputs[part], classes[part], None if scores is None else scores[part])
            start += ahead
            if start <= len(inputs):
                update = learn()
        return update

    def inputs(self) -> Tensor:
        """Return the stored inputs by class, the oldest first; a tensor of length 0 if there are none."""
        return torch.empty(0) if self.held is None else self.held[self._order()]

    def classes(self) -> list[int]:
        """Return the predicted classes of the stored inputs, in the order of `inputs`."""
        return [label for label in sorted(self.slots) for _ in self.slots[label]]

    def check_state(self) -> None:
        """Refuse slots that are used twice, lie outside the memory, or belong to inputs that are not there."""
        used = [slot for slots in self.slots.values() for slot in slots]
        free = not used if self.held is None else sorted(used) == list(range(len(used)))
        sizes = {len(self.held)} if isinstance(self.held, Tensor) else set()
        numbers = [self.offers, *self.slots, *used]
        if not free or not sizes <= {self.capacity} or any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("the slots of the memory do not match the inputs it holds")

    @abstractmethod
    def _admit(self, label: int, score: float) -> int | None:
        """Return the slot for one sample, or None to reject it."""

    def _order(self) -> list[int]:
        return [slot for label in sorted(self.slots) for slot in self.slots[label]]

    def _full(self) -> bool:
        return len(self) == self.capacity

    def _largest(self) -> list[int]:
        """Return the classes with the most inputs, in ascending order."""
        most = max(map(len, self.slots.values()))
        return sorted(label for label, slots in self.slots.items() if len(slots) == most)

    def _add(self, label: int) -> int:
        """Return the next free slot; slots are filled in order and never become free again."""
        slot = len(self)
        self.slots.setdefault(label, []).append(slot)
        return slot

    def _replace(self, old_label: int, position: int, label: int) -> int:
        """Return the slot of one stored input, which the new one replaces."""
        slot = self.slots[old_label].pop(position)
        self.slots.setdefault(label, []).append(slot)
        if not self.slots[old_label]:
            del self.slots[old_label]
        return slot

    def _uniform(self, purpose: str, otherwise: float) -> float:
        """Return a number in [0, 1) drawn for the next sample."""
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
    """Hold the newest inputs in order of arrival, regardless of their classes."""

    def _admit(self, label: int, score: float) -> int:
        return self._replace(0, 0, 0) if self._full() else self._add(0)


class BalancedMemory(Memory):
    """Hold a class-balanced set of recent and certain inputs: CSTU (Yuan et al., CVPR 2023).

    Scores are uncertainties in nats. The quota of a class is the capacity divided by the number of classes and also
    applies while there are free slots; with `fill_first` it applies once the memory is full, as in SoTTA's and AETTA's
    copies.
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
        self.add_state("uncertainties", [0.0] * self.capacity)  # by slot
        self.add_state("times", [0] * self.capacity)  # value of the clock when offered, by slot

    def check_state(self) -> None:
        """Refuse lists that are not one number for each slot."""
        super().check_state()
        for values, kind in ((self.uncertainties, float), (self.times, int)):
            if len(values) != self.capacity or any(type(value) is not kind for value in values):
                raise ValueError("the memory does not know how old or how certain each input is")

    def ages(self) -> Tensor:
        """Return the number of samples offered since each input, itself included, in the order of `inputs`."""
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
        worst, old_label, position = max(
            (self._badness(self.offers - self.times[slot], self.uncertainties[slot]), old_label, position)
            for old_label in pool
            for position, slot in enumerate(self.slots[old_label])
        )
        return self._replace(old_label, position, label) if worst > self._badness(0, uncertainty) else None

    def _badness(self, age: int, uncertainty: float) -> float:
        timeliness = 1 / (1 + math.exp(-age / self.capacity))
        return self.timeliness_weight * timeliness + self.uncertainty_weight * uncertainty


class ConfidentMemory(Memory):
    """Hold confident samples only, and replace inputs of the largest class: HUS (Gong et al., NeurIPS 2023).

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
    """Sample uniformly in time within each class, and balance the classes: PBRS (Gong et al., NeurIPS 2022)."""

    seen: dict[int, int]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("seen", {})  # class -> number of samples predicted as it so far, n_c

    def _admit(self, label: int, score: float) -> int | None:
        self.seen[label] = self.seen.get(label, 0) + 1
        if not self._full():
            return self._add(label)
        largest = self._largest()
        if label not in largest:
            return self._replace_any(self._pick(largest, "class"), label)
        share = len(self.slots[label]) / self.seen[label]
        return self._replace_any(label, label) if self._uniform("chance", 0.5) <= share else None
