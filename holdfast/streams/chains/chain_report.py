"""Compare part of a plan with the chains behind it: stays, shares and repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from holdfast.records import Picks
from holdfast.streams.chains.chain import Chain


@dataclass(frozen=True)
class ChainReport:
    """Domains or classes, state by state; `stays` and `shares` are None if no single chain decides."""

    stays: NDArray[np.float64] | None  # α
    shares: NDArray[np.float64] | None  # π
    counts: NDArray[np.int64]  # samples of each state
    stayed: NDArray[np.int64]  # samples that were followed by the same state

    @property
    def realised_stay(self) -> float:
        """The share of samples followed by the same state."""
        return float(self.stayed.sum() / max(1, self.counts.sum() - 1))

    @property
    def realised_shares(self) -> NDArray[np.float64]:
        """The share of each state."""
        return cast(NDArray[np.float64], self.counts / max(1, self.counts.sum()))


@dataclass(frozen=True)
class StreamReport:
    """Domains, classes, and the number of samples that had come before in the same domain."""

    domains: ChainReport  # how domains came
    classes: ChainReport  # how classes came
    samples: int  # of the whole stream
    repeats: int  # samples that had come before in the same domain


def report_on(
    picks: Picks,
    classes: NDArray[np.integer],
    domain_chain: Chain | None,
    class_chain: Chain | None,
    sizes: tuple[int, int],
) -> StreamReport:
    """Return the report on these picks; `classes` are states, `sizes` the numbers of domains and classes."""
    return StreamReport(
        domains=_chain_report(picks.domains, sizes[0], domain_chain),
        classes=_chain_report(classes, sizes[1], class_chain),
        samples=len(picks),
        repeats=len(picks) - len(np.unique(picks.samples * sizes[0] + picks.domains)),
    )


def _chain_report(states: NDArray[np.integer], size: int, chain: Chain | None) -> ChainReport:
    stayed = states[:-1][states[1:] == states[:-1]]
    return ChainReport(
        stays=None if chain is None else chain.stays,
        shares=None if chain is None else chain.shares,
        counts=np.bincount(states, minlength=size),
        stayed=np.bincount(stayed, minlength=size),
    )
