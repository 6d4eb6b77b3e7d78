"""Orders: how the samples of a block are arranged, given their labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.options.problems import check
from holdfast.options.ranges import Count, Positive
from holdfast.registry import Registry


@dataclass(frozen=True)
class Order(ABC):
    """Arranges the samples of one block; the fields are its options."""

    def __post_init__(self) -> None:
        check(type(self), vars(self), owner=f"order {ORDERS.name_of(type(self))!r}")

    @abstractmethod
    def arrange(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation of the samples, given their labels."""

    def spec(self) -> dict[str, Any]:
        """Return name and options as plain JSON."""
        return {"name": ORDERS.name_of(type(self)), **asdict(self)}


ORDERS: Registry[Callable[..., Order]] = Registry("order", "orders")


@ORDERS.register("shuffled")
@dataclass(frozen=True)
class Shuffled(Order):
    """Independent and identically distributed: all orders are equally likely."""

    def arrange(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a uniform permutation."""
        return rng.permutation(len(labels))


@ORDERS.register("sorted")
@dataclass(frozen=True)
class Sorted(Order):
    """Sorted by class, shuffled within each class.

    >>> labels = np.array([2, 0, 1, 0, 2])
    >>> labels[Sorted().arrange(labels, np.random.default_rng(0))].tolist()
    [0, 0, 1, 2, 2]
    """

    def arrange(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation that sorts the labels."""
        shuffled = rng.permutation(len(labels))
        return shuffled[np.argsort(labels[shuffled], kind="stable")]


@ORDERS.register("correlated")
@dataclass(frozen=True, kw_only=True)
class Correlated(Order):
    """Class-correlated: each class is spread over time slots by proportions from a symmetric Dirichlet distribution.

    Within a slot the classes come one after the other, in random order. A small concentration puts a class into few
    slots; a large one gives every slot the same share of every class, which is close to i.i.d. when there are as many
    slots as samples of a class.
    """

    citation = "Boudiaf et al., CVPR 2022; Gong et al., NeurIPS 2022; Marsden et al., WACV 2024"

    concentration: Positive = 0.1  # of the Dirichlet distribution; smaller is more correlated
    slots: Count | None = None  # None: the number of classes in the block

    def spec(self) -> dict[str, Any]:
        """Return name and options; concentrations of 1 and 1.0 are equal."""
        return {**super().spec(), "concentration": float(self.concentration)}

    def arrange(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation that clusters the samples of a class in time."""
        by_class = Sorted().arrange(labels, rng)
        class_sizes = np.unique(labels, return_counts=True)[1]
        slots = self.slots or len(class_sizes)
        proportions = rng.dirichlet(np.full(slots, self.concentration), size=len(class_sizes))  # (classes, slots)
        ends = np.rint(proportions.cumsum(axis=1) * class_sizes[:, None]).astype(np.int64)
        counts = np.diff(ends, axis=1, prepend=0).ravel()
        slot = np.repeat(np.tile(np.arange(slots), len(class_sizes)), counts)
        turn = np.repeat(rng.random(counts.size), counts)  # the order of the classes within a slot
        return by_class[np.lexsort((turn, slot))]


@ORDERS.register("single_class")
@dataclass(frozen=True, kw_only=True)
class SingleClass(Order):
    """Runs of one class, in random order: with `run` as the batch size, every batch holds one class.

    >>> labels = np.array([0, 1] * 4)
    >>> labels[SingleClass(run=2).arrange(labels, np.random.default_rng(1))].reshape(4, 2).tolist()
    [[1, 1], [0, 0], [1, 1], [0, 0]]
    """

    run: Count = 64  # samples

    def arrange(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a permutation in runs; the rest of each class, shorter than a run, comes at the end."""
        by_class = Sorted().arrange(labels, rng)
        within = np.concatenate([np.arange(size) for size in np.unique(labels, return_counts=True)[1]])
        runs = np.cumsum((within % self.run == 0).astype(np.int64)) - 1
        sizes = np.bincount(runs)
        turn = rng.random(len(sizes)) + (sizes < self.run)
        return by_class[np.lexsort((runs, turn[runs]))]


@ORDERS.register("drifting")
@dataclass(frozen=True, kw_only=True)
class Drifting(Order):
    """Label shift: the frequencies of the classes drift slowly, each class is common once.

    Every class has its time, and its samples come around it with a standard deviation of `spread` of the block.
    """

    spread: Positive = 0.1

    def arrange(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the permutation that sorts the samples by their drawn times; time runs in a circle."""
        classes, index = np.unique(labels, return_inverse=True)
        times = rng.permutation(len(classes))[index] / len(classes) + self.spread * rng.standard_normal(len(labels))
        return np.argsort(times % 1.0, kind="stable")


def order_named(name: str, **options: Any) -> Order:
    """Return the order of this name; an option of None keeps its default.

    >>> order_named("correlated", concentration=0.5, slots=None)
    Correlated(concentration=0.5, slots=None)
    """
    order = ORDERS[name]
    given = {option: value for option, value in options.items() if value is not None}
    check(order, given, owner=f"order {name!r}")
    return order(**given)
