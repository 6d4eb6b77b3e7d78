"""A schedule: which domains come at which severities, one block after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.records import Domain

__all__ = ["Block", "Cell", "Schedule", "schedule_of"]


@dataclass(frozen=True)
class Cell:
    """One domain at one severity for each of its corruptions."""

    domain: int  # index into the schedule's domains
    severities: tuple[float, ...]


@dataclass(frozen=True)
class Block:
    """A stretch that is arranged as a whole: its cells, mixed with one another, with equally many samples each."""

    cells: tuple[Cell, ...]
    samples_per_cell: int  # at most what the data has: no sample comes twice in a cell
    new_episode: bool = False

    @property
    def size(self) -> int:
        """The number of samples in the block."""
        return len(self.cells) * self.samples_per_cell


@dataclass(frozen=True)
class Schedule:
    """The blocks of one cycle and how often it comes round; `cycles=None` never ends."""

    domains: tuple[Domain, ...]
    blocks: tuple[Block, ...]
    cycles: int | None = 1


def schedule_of(
    steps: Sequence[Sequence[tuple[Domain, float]]],
    *,
    samples_per_cell: int | None,
    data_size: int,
    cycles: int | None = 1,
    episodes: bool = False,
) -> Schedule:
    """Return the schedule of these steps, each of them (domain, severity) cells that are mixed with one another.

    A step that wants more samples than the data has becomes several blocks, one for each pass through the data.

    >>> fog = Domain("fog", ("fog",))
    >>> [block.size for block in schedule_of([[(fog, 5)]], samples_per_cell=250, data_size=100).blocks]
    [100, 100, 50]
    """
    samples = data_size if samples_per_cell is None else samples_per_cell
    if not steps or not all(steps):
        raise ValueError("the stream has no domains; name at least one corruption, or 'clean'")
    if samples < 1 or data_size < 1:
        raise ValueError(f"{samples} samples for each domain, of {data_size}, make no stream; ask for at least 1 of 1")
    if cycles is not None and cycles < 1:
        raise ValueError(f"cycles={cycles} makes no stream; pass at least 1, or None for an endless one")
    for severity in (severity for step in steps for _, severity in step):
        if not 0 <= severity <= 5:
            raise ValueError(f"severity {severity} is out of range; pass a number from 0 to 5")
    domains = tuple(dict.fromkeys(domain for step in steps for domain, _ in step))
    blocks = []
    for step in steps:
        cells = tuple(Cell(domains.index(d), (float(severity),) * len(d.corruptions)) for d, severity in step)
        for start in range(0, samples, data_size):
            blocks.append(Block(cells, min(data_size, samples - start), new_episode=episodes and start == 0))
    return Schedule(domains, tuple(blocks), cycles)
