"""A Markov chain over domains or classes: how long each state lasts, and which comes next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from holdfast.options.problems import check
from holdfast.options.ranges import Count, Share
from holdfast.registry import nearest
from holdfast.streams.chains.holding import HOLDINGS

States = NDArray[np.int32]
DRAWS = 4096  # of states at a time
CLOSE = 1e-12  # 1 − 14/15 and 1/15 differ by rounding


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A Markov chain with a long tail that leaves uniformly (Du et al., arXiv 2407.20080), and extensions of it.

    The head stays with probability `stay` (α₁) and is `imbalance` (β) times as frequent as the tail; in between the
    shares fall geometrically, α_i = 1 − (1 − α₁)·β^((i−1)/(n−1)). `stay="iid"` draws every sample from the shares,
    which this chain cannot do with a long tail; "continual", or 1, visits every state once, in order. With an `order`
    above 1 the chain remembers where it came from (the paper's Appendix C.2 names higher orders, the form is ours):
    when it leaves, it returns with probability `revisit` to a recent visit. Stays and shares remain as they were.

    >>> chain = Chain(size=10, stay=0.95, imbalance=10)
    >>> chain.stays[[0, 9]].round(3).tolist(), round(float(chain.shares[0] / chain.shares[9]), 3)
    ([0.95, 0.5], 10.0)
    >>> Chain(size=10, stay=0.5, imbalance=10).check()
    Traceback (most recent call last):
    ...
    ValueError: stay=0.5 and imbalance=10 would give the last of 10 states a stay of -4; pass stay=0.91 or \
more, imbalance=1.8 or less, or stay='iid'
    """

    size: Count  # number of states
    stay: Share | Literal["iid", "continual"] = "iid"  # α₁; below 1/n the chain is anti-correlated
    imbalance: Annotated[float, Interval(ge=1)] = 1.0  # β
    head: int = 0  # position of the head in `head_to_tail`; counted modulo the number of states
    head_to_tail: tuple[int, ...] | None = None  # None: in the order of the states
    leaving: tuple[float, ...] | None = None  # weights w: P(i→j) = (1 − α_i)·w_j/Σ_{l≠i} w_l; None: equal
    holding: str = "geometric"  # distribution of the length of a stay
    order: Count = 1  # how many of the last visits decide where the chain goes; see `revisit`
    revisit: Share = 0.5  # with order m > 1: probability of leaving for one of the m − 1 visits before this one

    def __post_init__(self) -> None:
        check(type(self), vars(self), owner="a chain")
        if self.head_to_tail is not None and sorted(self.head_to_tail) != list(range(self.size)):
            raise ValueError(f"head_to_tail must name each of the states 0 to {self.size - 1} once")
        if self.holding not in HOLDINGS:
            raise ValueError(f"unknown holding {self.holding!r}; {nearest(self.holding, HOLDINGS)}")
        if self.leaving is not None and (len(self.leaving) != self.size or min(self.leaving) <= 0):
            raise ValueError(
                f"leaving must have a positive weight for each of the {self.size} states, got {self.leaving}"
            )
        if self.order > 2 and self.leaving is not None:
            raise ValueError(f"order={self.order} would change the shares that `leaving` gives; pass order=2 or less")
        if not self.is_plain and (self.is_continual or self.stay == "iid"):
            raise ValueError(
                f"leaving, holding and order have no effect with stay={self.stay!r}; drop them or pass a number as stay"
            )

    @property
    def is_continual(self) -> bool:
        """Whether every state comes once, in order."""
        return self.stay in ("continual", 1)

    @property
    def is_plain(self) -> bool:
        """Whether it leaves uniformly and stays geometrically long, as published."""
        return self.leaving is None and self.holding == "geometric" and self.order == 1

    @property
    def is_feasible(self) -> bool:
        """Whether all α_i are in [1/n, 1): the paper's Corollary 1, with 1/n included as in its code."""
        return self.size > 1 and not self.is_continual and self._tail_stay >= 1 / self.size - CLOSE

    @cached_property
    def tail(self) -> NDArray[np.float64]:
        """The shares of a long tail: β^(−(i−1)/(n−1)), normalised."""
        return _normalised(self.imbalance**-self._depth)

    @cached_property
    def stays(self) -> NDArray[np.float64]:
        """The probability that each state is followed by itself, α."""
        if self.is_continual or self.size == 1:
            return np.ones(self.size)
        if self.stay == "iid":
            return self.tail
        return 1 - (1 - self._head_stay) * self.imbalance**self._depth

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The normalised weights of the states that the chain leaves for, w."""
        if self.leaving is None:
            return self.tail if self.stay == "iid" else np.full(self.size, 1 / self.size)
        return _normalised(np.array(self.leaving, np.float64))

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The stationary distribution, π: visits of the jump chain, which is reversible, times their duration."""
        if self.is_continual or self.size == 1:
            return self.tail
        return _normalised(self.weights * (1 - self.weights) / (1 - self.stays))

    def check(self) -> None:
        """Raise if the chain does not exist, naming the nearest values for which it does."""
        if self.size == 1 or self.is_continual or self.stay == "iid" or self.is_feasible:
            return
        # A stay below chance asks for anti-correlation, down to a tail that never stays.
        lowest = 0.0 if self._head_stay < 1 / self.size - CLOSE else 1 / self.size
        if self._tail_stay < lowest - CLOSE:
            enough = np.ceil(1e3 * (1 - (1 - lowest) / self.imbalance - CLOSE)) / 1e3
            most = np.floor(1e3 * ((1 - lowest) / (1 - self._head_stay) + CLOSE)) / 1e3
            raise ValueError(
                f"stay={self.stay:g} and imbalance={self.imbalance:g} would give the last of {self.size} states a "
                f"stay of {self._tail_stay:.3g}; pass stay={enough:g} or more, imbalance={most:g} or less, or "
                "stay='iid'"
            )

    def spec(self) -> dict[str, Any]:
        """Return the options as plain JSON; 1 and 1.0, or 1 and "continual", are equal."""
        stay = "continual" if self.is_continual else self.stay
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        if self.order == 1:  # fingerprints of earlier versions had neither
            del plain["order"], plain["revisit"]
        return {**plain, "stay": stay, "imbalance": float(self.imbalance)}

    def states(self, length: int, rng: np.random.Generator, *, start: int | None = None) -> States:
        """Return `length` states; without `start` the first is drawn from the shares.

        Runs are drawn instead of steps: the visited states, then the duration of each visit.
        """
        if self.is_continual:
            borders = np.rint(self.tail.cumsum() * length).astype(np.int64)
            return np.repeat(np.arange(self.size, dtype=np.int32), np.diff(borders, prepend=0))
        if self.size == 1:
            return np.zeros(length, np.int32)
        means = 1 / (1 - self.stays)
        hold = HOLDINGS[self.holding]
        first = rng.choice(self.size, p=self.shares) if start is None else start
        visits: list[States] = [np.array([first], np.int32)]
        ends = [hold(means[visits[0]], rng)]
        while ends[-1][-1] < length:
            # A constant number at a time, so that a longer stream begins like a shorter one.
            if self.order > 1:
                more = self._visits_after(np.concatenate(visits[-2:])[-self.order :], rng)
            else:
                more = self.draw(DRAWS, rng)
                more = more[more != np.concatenate([visits[-1][-1:], more[:-1]])]  # leaving means another state
            if len(more):
                visits.append(more)
                ends.append(ends[-1][-1] + hold(means[more], rng).cumsum())
        until = np.concatenate(ends)
        needed = int(np.searchsorted(until, length)) + 1
        return np.repeat(np.concatenate(visits)[:needed], np.diff(np.minimum(until[:needed], length), prepend=0))

    def draw(self, count: int, rng: np.random.Generator) -> States:
        """Return states drawn independently by their leaving weights."""
        if self.leaving is None and (self.stay != "iid" or self.imbalance == 1):
            return rng.integers(self.size, size=count, dtype=np.int32)
        edges = self.weights.cumsum()[:-1]
        return np.searchsorted(edges, rng.random(count), side="right").astype(np.int32)

    def _visits_after(self, recent: States, rng: np.random.Generator) -> States:
        """Return the next visits of a chain of higher order: a recent one, or any other state by its weight."""
        edges = [0.0, *self.weights.cumsum().tolist()]
        returns = rng.random(DRAWS) < self.revisit
        lags, aims = rng.integers(1, self.order, DRAWS), rng.random(DRAWS)
        visits: list[int] = recent.tolist()
        for back, lag, aim in zip(returns.tolist(), lags.tolist(), aims.tolist(), strict=True):
            now, earlier = visits[-1], visits[-1 - lag] if lag < len(visits) else visits[-1]
            visits.append(earlier if back and earlier != now else _another(now, aim, edges))
        return np.array(visits[len(recent) :], np.int32)

    @property
    def _head_stay(self) -> float:
        return 1 / self.size if isinstance(self.stay, str) else self.stay

    @property
    def _tail_stay(self) -> float:
        return 1 - (1 - self._head_stay) * self.imbalance  # α_n

    @property
    def _depth(self) -> NDArray[np.float64]:
        """Return the distance of each state from the head: 0 for the head itself, 1 for the tail."""
        ranks = np.argsort(self.head_to_tail if self.head_to_tail is not None else np.arange(self.size))
        return (ranks - self.head) % self.size / max(1, self.size - 1)


def _normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def chain_of(what: str, size: int, options: Chain | Mapping[str, Any]) -> Chain:
    """Return the chain with these options; refuse unknown ones.

    >>> chain_of("classes", 3, {"stay": 0.9, "head_to_tail": [2, 0, 1]}).head_to_tail
    (2, 0, 1)
    """
    if isinstance(options, Chain):
        if options.size != size:
            raise ValueError(f"the chain of {what} must have size={size}, got {options.size}")
        return options
    given: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in options.items()}
    check(Chain, given, owner=f"the chain of {what}", without={"size"})
    return Chain(size=size, **given)


def states_along(chains: Sequence[Chain], domains: States, rng: np.random.Generator) -> States:
    """Return classes that follow the chain of their current domain: P_D(d,d′)·P_C^(d′)(k,k′)."""
    if any(chain.is_continual or chain.holding != "geometric" or chain.order > 1 for chain in chains):
        raise ValueError("class chains per domain must be memoryless; pass stay below 1, and no holding or order")
    state = int(rng.choice(chains[0].size, p=chains[domains[0]].shares))
    draws, aims = rng.random((len(domains), 2)).T
    leaves = [(1 - chain.stays).tolist() for chain in chains]
    edges = [[0.0, *chain.weights.cumsum().tolist()] for chain in chains]
    candidates = np.flatnonzero(
        draws < np.array([max(leave) for leave in leaves])[domains]
    )  # positions that may leave their state
    steps = zip(*(column[candidates].tolist() for column in (domains, draws, aims)), strict=True)
    moves, visits = [0], [state]
    for position, (domain, draw, aim) in zip(candidates.tolist(), steps, strict=True):
        if position and draw < leaves[domain][state]:
            state = _another(state, aim, edges[domain])
            moves.append(position)
            visits.append(state)
    return np.repeat(np.array(visits, np.int32), np.diff(moves, append=len(domains)))


def _another(state: int, aim: float, edges: Sequence[float]) -> int:
    """Return the other state that a number between 0 and 1 falls on, with the current one removed."""
    width = edges[state + 1] - edges[state]
    aim *= 1 - width
    return min(bisect_right(edges, aim if aim < edges[state] else aim + width) - 1, len(edges) - 2)
