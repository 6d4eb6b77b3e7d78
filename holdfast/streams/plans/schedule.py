"""A schedule: the domains and severities of a stream, in consecutive blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.records import Domain

MOST_BLOCKS = 100_000  # of one cycle


@dataclass(frozen=True)
class Condition:
    """One domain, with a severity for each of its corruptions."""

    domain: int  # index into the schedule's domains
    severities: tuple[float, ...]  # one for each corruption of the domain, 0 to 5


@dataclass(frozen=True)
class Block:
    """Samples that are arranged together: some conditions, mixed."""

    conditions: tuple[Condition, ...]  # that are mixed with one another
    counts: tuple[int, ...]  # samples of each; at most the size of its domain: none comes twice in one condition
    new_episode: bool = False  # models go back to the source before this block

    @property
    def size(self) -> int:
        """The number of samples in the block."""
        return sum(self.counts)


@dataclass(frozen=True)
class Schedule:
    """The blocks of one cycle, and how often the cycle is repeated; `cycles=None` never ends."""

    domains: tuple[Domain, ...]  # that blocks refer to by index
    blocks: tuple[Block, ...]  # of one cycle, in order
    cycles: int | None = 1  # how often the blocks are repeated; None: without end

    def spec(self) -> dict[str, Any]:
        """Return the schedule as plain JSON; conditions are stored as "cells", as in committed fingerprints."""
        return {
            "domains": [domain.spec() for domain in self.domains],
            "blocks": [
                {
                    "cells": [
                        {"domain": condition.domain, "severities": list(condition.severities)}
                        for condition in block.conditions
                    ],
                    "samples_per_cell": block.counts[0] if len(set(block.counts)) == 1 else list(block.counts),
                    "new_episode": block.new_episode,
                }
                for block in self.blocks
            ],
            "cycles": self.cycles,
        }


def schedule_of(
    steps: Sequence[Sequence[tuple[Domain, float]]],
    *,
    samples_per_condition: int | None,
    data_size: int | Sequence[Sequence[int]],
    cycles: int | None = 1,
    episodes: bool = False,
) -> Schedule:
    """Return the schedule of these steps, each a list of (domain, severity) that are mixed with one another.

    A step with more samples per condition than the data holds becomes several blocks, one per pass through the data.
    `data_size` is the number of samples, or for data with natural domains that of each condition of each step.

    Args:
        steps: each a list of (domain, severity) that are mixed with one another.
        samples_per_condition: of each step; None: all that the data holds.
        data_size: number of samples, or for data with natural domains that of each condition of each step.
        cycles: how often the steps are repeated; None: without end.
        episodes: whether models go back to the source before each step.

    >>> fog = Domain("fog", ("fog",))
    >>> [block.size for block in schedule_of([[(fog, 5)]], samples_per_condition=250, data_size=100).blocks]
    [100, 100, 50]
    """
    if not steps or not all(steps):
        raise ValueError("the stream has no domains; pass at least one corruption, or 'clean'")
    sizes = [[data_size] * len(step) for step in steps] if isinstance(data_size, int) else data_size
    smallest = min(size for step in sizes for size in step)
    samples = smallest if samples_per_condition is None else samples_per_condition
    if min(samples, smallest, 1 if cycles is None else cycles) < 1:
        raise ValueError(
            "samples_per_domain, cycles and the size of the data set must be at least 1, got "
            f"{samples}, {cycles} and {smallest}"
        )
    for severity in (severity for step in steps for _, severity in step):
        if not 0 <= severity <= 5:
            raise ValueError(f"severity must be a number from 0 to 5, got {severity}")
    passes = -(-samples // smallest)
    if passes * len(steps) > MOST_BLOCKS:
        raise ValueError(
            f"samples_per_domain={samples} takes {passes} passes through {smallest} samples in each of {len(steps)} "
            f"steps, over {MOST_BLOCKS} in all; repeat the steps with cycles instead"
        )
    domains = tuple(dict.fromkeys(domain for step in steps for domain, _ in step))
    blocks = []
    for step, held in zip(steps, sizes, strict=True):
        conditions = tuple(Condition(domains.index(d), (float(severity),) * len(d.corruptions)) for d, severity in step)
        wanted = [size if samples_per_condition is None else samples_per_condition for size in held]
        for number in range(max(-(-samples // size) for samples, size in zip(wanted, held, strict=True))):
            counts = (min(size, max(0, all_ - number * size)) for all_, size in zip(wanted, held, strict=True))
            blocks.append(Block(conditions, tuple(counts), new_episode=episodes and number == 0))
    return Schedule(domains, tuple(blocks), cycles)
