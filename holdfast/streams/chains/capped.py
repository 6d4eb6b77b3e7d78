"""The official UniTTA sampler: infeasible chains are replaced by caps, and the stream ends when these are reached."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from holdfast.streams.chains.chain import Chain, States
from holdfast.streams.chains.strata import turns

Caps = NDArray[np.int64]


def official_chain(chain: Chain) -> Chain:
    """Return the chain that the official code follows: a balanced one where the requested chain is infeasible."""
    return chain if chain.is_feasible else replace(chain, imbalance=1.0)


def stratum_caps(domains: Chain, classes: Chain, samples_per_stratum: int) -> Caps:
    """Return the most samples of each stratum, (domains, classes); that of both heads has `samples_per_stratum`."""
    caps = np.outer(domains.tail / domains.tail.max(), classes.tail / classes.tail.max())
    return cast(Caps, np.rint(samples_per_stratum * caps).astype(np.int64))


def official_states(
    domains: Chain, classes: Chain, samples_per_stratum: int, rng: np.random.Generator
) -> tuple[States, States]:
    """Return domains and classes by the rules of the official code, which starts in the first of both.

    Two feasible chains end when one stratum has had `samples_per_stratum` samples. An infeasible chain is balanced, and
    its states close at their caps; if both are infeasible, strata close. When a continual chain moves to its next
    domain, the class is drawn anew, uniformly.
    """
    if domains.is_feasible and classes.is_feasible:
        longest = (
            domains.size * classes.size * (samples_per_stratum - 1) + 1
        )  # by then one stratum has reached its number
        path = domains.states(longest, rng, start=0), classes.states(longest, rng, start=0)
        end = np.argmax(turns(path[0] * np.int32(classes.size) + path[1]) == samples_per_stratum - 1) + 1
        return path[0][:end].copy(), path[1][:end].copy()
    caps = stratum_caps(domains, classes, samples_per_stratum)
    if classes.is_feasible:
        return _capped_and_free(domains, classes, caps.sum(1), rng)
    if domains.is_feasible:
        free_last = _capped_and_free(classes, domains, caps.sum(0), rng)
        return free_last[1], free_last[0]
    return _capped_strata(domains, classes, caps, rng)


def _capped_and_free(capped: Chain, free: Chain, caps: Caps, rng: np.random.Generator) -> tuple[States, States]:
    """Return the states of a capped chain and of a feasible one beside it."""
    if not capped.is_continual:
        return _capped_states(capped, caps, rng), free.states(int(caps.sum()), rng, start=0)
    starts = [0, *rng.integers(free.size, size=capped.size - 1).tolist()]
    parts = [free.states(int(cap), rng, start=start) for cap, start in zip(caps, starts, strict=True)]
    return np.repeat(np.arange(capped.size, dtype=np.int32), caps), np.concatenate(parts)


def _capped_states(chain: Chain, caps: Caps, rng: np.random.Generator) -> States:
    """Return the states of a balanced chain, conditioned on the states that are still open, until all are closed."""
    if chain.stay == "iid":
        return _by_clocks(caps, rng)
    stay = official_chain(chain).stays[0]
    left, start, parts = caps.copy(), 0, []
    while left.any():
        # The chain is in the state that closes, so that every later phase begins in any open state.
        states = np.flatnonzero(left)
        move = (1 - stay) * (len(states) - 1) / max(1, chain.size - 1)
        phase = Chain(size=len(states), stay=float(stay / (stay + move)) if move else 1.0)
        path = states[phase.states(int((left[states] - 1).sum()) + 1, rng, start=start)]
        end = np.argmax(turns(path) == left[path] - 1) + 1
        parts.append(path[:end])
        left -= np.bincount(parts[-1], minlength=chain.size)
        start = int(rng.integers(max(1, len(states) - 1)))
    return np.concatenate(parts).astype(np.int32)


def _capped_strata(domains: Chain, classes: Chain, caps: Caps, rng: np.random.Generator) -> tuple[States, States]:
    """Return the strata if neither chain is feasible: any open one, of the current domain if that is continual."""
    for chain in (domains, classes):
        if not chain.is_continual and chain.stay != "iid":
            raise ValueError(
                f"two infeasible chains need stay='iid' or 'continual' in mode='official', got {chain.stay:g}; "
                "pass one of them or a feasible stay"
            )
    groups = np.zeros(caps.shape, np.int64)
    if classes.is_continual:
        groups += np.arange(classes.size)
    if domains.is_continual:
        groups += classes.size * np.arange(domains.size)[:, None]
    domain, class_ = np.divmod(_by_clocks(caps.ravel(), rng, groups.ravel()), np.int32(classes.size))
    return domain, class_


def _by_clocks(caps: Caps, rng: np.random.Generator, groups: NDArray[np.int64] | None = None) -> States:
    """Return open states drawn uniformly until each has come as often as its cap, the first one first.

    Each open state has a Poisson process of the same rate; the order of their events is the order of the states.
    """
    states: States = np.repeat(np.arange(len(caps), dtype=np.int32), caps)
    waits = rng.exponential(size=len(states))
    waits[0] = 0
    times = waits.cumsum()
    firsts = caps.cumsum() - caps
    times -= np.repeat((times - waits)[np.minimum(firsts, len(times) - 1)], caps)
    return states[np.lexsort((times,) if groups is None else (times, groups[states]))]
