"""A plan in blocks: the schedule decides what comes, the order how each block is arranged."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.randomness import seeded_rng
from holdfast.records import Picks
from holdfast.streams.plans.domains import Pools
from holdfast.streams.plans.orders import Order
from holdfast.streams.plans.plan import Plan
from holdfast.streams.plans.schedule import Block, Condition, Schedule


class BlockPlan(Plan):
    """Any schedule with any order; every block has its own generator, so that any position costs one block.

    Args:
        schedule: domains, blocks and cycles.
        order: of the samples within a block.
        labels: index of the class of each sample of the data.
        pools: samples of each domain; None: all of them.
        shuffle_steps: whether blocks come in a random order.
        seed: of all draws.

    >>> from holdfast.records import Domain
    >>> from holdfast.streams.plans.orders import Sorted
    >>> from holdfast.streams.plans.schedule import schedule_of
    >>> steps = [[(Domain("fog", ("fog",)), 5)], [(Domain("clean"), 5)]]
    >>> labels = np.array([1, 0, 1])
    >>> plan = BlockPlan(schedule_of(steps, samples_per_condition=None, data_size=3, cycles=None), Sorted(), labels)
    >>> labels[plan.picks(0, 6).samples].tolist(), plan.next_break(10**9)
    ([0, 1, 1, 0, 1, 1], 1000000002)
    """

    def __init__(
        self,
        schedule: Schedule,
        order: Order,
        labels: NDArray[np.int64],
        *,
        pools: Pools | None = None,
        shuffle_steps: bool = False,
        seed: int = 0,
    ) -> None:
        self.schedule = schedule
        self.pools = pools  # the samples of each domain; None: all of them
        self.shuffle_steps = shuffle_steps
        self._blocks = _shuffled(schedule.blocks, seed) if shuffle_steps else schedule.blocks
        self.order = order
        self.labels = labels
        self.seed = seed
        self.domains = schedule.domains
        self._ends = np.cumsum([block.size for block in self._blocks])  # of the blocks of one cycle
        self._cycle_length = int(self._ends[-1])
        self._breaks = self._ends[[_breaks(*pair) for pair in _neighbours(self._blocks)]]
        self.length = None if schedule.cycles is None else schedule.cycles * self._cycle_length
        self._depth = max(len(domain.corruptions) for domain in self.domains)
        self._arranged = lru_cache(maxsize=4)(self._arrange)

    def picks(self, start: int, stop: int) -> Picks:
        """Return the picks at positions `start` to `stop`, block by block."""
        self.check_span(start, stop)
        parts = [Picks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, self._depth)))]
        while start < stop:
            index, first = self._block_at(start)
            block = self._arranged(index)
            parts.append(_stretch(block, start - first, stop - first))
            start += len(parts[-1])
        return Picks(
            np.concatenate([part.samples for part in parts]),
            np.concatenate([part.domains for part in parts]),
            np.concatenate([part.severities for part in parts]),
        )

    def next_break(self, position: int) -> int | None:
        """Return where the domain, the severity or the episode changes next."""
        if not len(self._breaks):
            return None
        cycle, offset = divmod(position, self._cycle_length)
        later = int(np.searchsorted(self._breaks, offset, side="right"))
        if later == len(self._breaks):
            cycle, later = cycle + 1, 0
        upcoming = cycle * self._cycle_length + int(self._breaks[later])
        return upcoming if self.length is None or upcoming < self.length else None

    def starts_episode(self, position: int) -> bool:
        """Tell whether an episode begins at `position`."""
        index, first = self._block_at(position)
        return position == first and self._block(index).new_episode

    def spec(self) -> dict[str, Any]:
        """Return schedule and order as plain JSON."""
        shuffled = {"shuffle_steps": True} if self.shuffle_steps else {}
        return {"kind": "blocks", "version": 1, **self.schedule.spec(), "order": self.order.spec(), **shuffled}

    def __reduce__(self) -> tuple[Callable[..., BlockPlan], tuple[Any, ...]]:
        # Only the arguments are pickled, not the blocks arranged so far.
        rebuild = partial(BlockPlan, pools=self.pools, shuffle_steps=self.shuffle_steps, seed=self.seed)
        return rebuild, (self.schedule, self.order, self.labels)

    def _block(self, index: int) -> Block:
        return self._blocks[index % len(self._blocks)]

    def _block_at(self, position: int) -> tuple[int, int]:
        """Return the running number of the block at `position`, over all cycles, and its first position."""
        cycle, offset = divmod(position, self._cycle_length)
        within = int(np.searchsorted(self._ends, offset, side="right"))
        first = int(self._ends[within]) - self._blocks[within].size
        return cycle * len(self._blocks) + within, cycle * self._cycle_length + first

    def _arrange(self, index: int) -> Picks:
        """Choose the samples of every condition, then arrange them; the choice does not depend on the order."""
        block = self._block(index)
        rng = seeded_rng(self.seed, "samples", index)
        samples = [self._drawn(*drawn, rng) for drawn in zip(block.conditions, block.counts, strict=True)]
        severities = np.zeros((len(block.conditions), self._depth))
        for row, condition in zip(severities, block.conditions, strict=True):
            row[: len(condition.severities)] = condition.severities
        domains = np.array([condition.domain for condition in block.conditions], np.int64)
        unordered = np.concatenate(samples)
        arrangement = self.order.arrange(self.labels[unordered], seeded_rng(self.seed, "order", index))
        conditions = np.repeat(np.arange(len(domains)), block.counts)[arrangement]
        return Picks(unordered[arrangement], domains[conditions], severities[conditions])

    def _drawn(self, condition: Condition, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.pools is None:
            return rng.permutation(len(self.labels))[:count]
        return rng.permutation(self.pools[condition.domain])[:count]


def _shuffled(blocks: tuple[Block, ...], seed: int) -> tuple[Block, ...]:
    """Return the steps in an order drawn from the seed; blocks of the same conditions are one step."""
    steps = [list(step) for _, step in groupby(blocks, key=lambda block: block.conditions)]
    order = seeded_rng(seed, "order of steps").permutation(len(steps))
    return tuple(block for index in order for block in steps[index])


def _neighbours(blocks: tuple[Block, ...]) -> list[tuple[Block, Block]]:
    """Return each block with its successor; the last is followed by the first of the next cycle."""
    return list(zip(blocks, blocks[1:] + blocks[:1], strict=True))


def _breaks(block: Block, successor: Block) -> bool:
    """Tell whether a batch must end between two blocks: only if the conditions change or an episode begins."""
    return successor.new_episode or successor.conditions != block.conditions


def _stretch(picks: Picks, start: int, stop: int) -> Picks:
    return Picks(picks.samples[start:stop], picks.domains[start:stop], picks.severities[start:stop])
