"""A schedule: the domains and severities of a stream, in consecutive blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.records import Domain

__all__ = ["Block", "Condition", "Schedule", "schedule_of"]


MOST_BLOCKS = 100_000  # of one cycle


@dataclass(frozen=True)
class Condition:
    """One domain, with a severity for each of its corruptions."""

    domain: int  # index into the schedule's domains
    severities: tuple[float, ...]


@dataclass(frozen=True)
class Block:
    """Samples that are arranged together: some conditions, mixed, with the same number of samples each."""

    conditions: tuple[Condition, ...]
    samples_per_condition: int  # at most the size of the data: no sample comes twice in one condition
    new_episode: bool = False

    @property
    def size(self) -> int:
        """The number of samples in the block."""
        return len(self.conditions) * self.samples_per_condition


@dataclass(frozen=True)
class Schedule:
    """The blocks of one cycle, and how often the cycle is repeated; `cycles=None` never ends."""

    domains: tuple[Domain, ...]
    blocks: tuple[Block, ...]
    cycles: int | None = 1

    def spec(self) -> dict[str, Any]:
        """Return the schedule as plain JSON; conditions are stored as "cells", as in committed fingerprints."""
        return {
            "domains": [{"name": domain.name, "corruptions": list(domain.corruptions)} for domain in self.domains],
            "blocks": [
                {
                    "cells": [
                        {"domain": condition.domain, "severities": list(condition.severities)}
                        for condition in block.conditions
                    ],
                    "samples_per_cell": block.samples_per_condition,
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
    data_size: int,
    cycles: int | None = 1,
    episodes: bool = False,
) -> Schedule:
    """Return the schedule of these steps, each a list of (domain, severity) that are mixed with one another.

    A step with more samples per condition than the data holds becomes several blocks, one per pass through the data.

    >>> fog = Domain("fog", ("fog",))
    >>> [block.size for block in schedule_of([[(fog, 5)]], samples_per_condition=250, data_size=100).blocks]
    [100, 100, 50]
    """
    samples = data_size if samples_per_condition is None else samples_per_condition
    if not steps or not all(steps):
        raise ValueError("the stream has no domains; pass at least one corruption, or 'clean'")
    if min(samples, data_size, 1 if cycles is None else cycles) < 1:
        raise ValueError(
            "samples_per_domain, cycles and the size of the data set must be at least 1, got "
            f"{samples}, {cycles} and {data_size}"
        )
    for severity in (severity for step in steps for _, severity in step):
        if not 0 <= severity <= 5:
            raise ValueError(f"severity must be a number from 0 to 5, got {severity}")
    passes = -(-samples // data_size)
    if passes * len(steps) > MOST_BLOCKS:
        raise ValueError(
            f"samples_per_domain={samples} takes {passes} passes through {data_size} samples in each of {len(steps)} "
            f"steps, over {MOST_BLOCKS} in all; repeat the steps with cycles instead"
        )
    domains = tuple(dict.fromkeys(domain for step in steps for domain, _ in step))
    blocks = []
    for step in steps:
        conditions = tuple(Condition(domains.index(d), (float(severity),) * len(d.corruptions)) for d, severity in step)
        for start in range(0, samples, data_size):
            blocks.append(Block(conditions, min(data_size, samples - start), new_episode=episodes and start == 0))
    return Schedule(domains, tuple(blocks), cycles)
