"""A plan of two chains: one for the domains, one for the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.randomness import seeded_rng
from holdfast.records import Domain, Picks
from holdfast.streams.chains.capped import official_chain, official_states
from holdfast.streams.chains.chain import Chain, States, states_along
from holdfast.streams.chains.chain_report import StreamReport, report_on
from holdfast.streams.chains.strata import deal, stratum_sizes, turns
from holdfast.streams.plans.domains import Pools, classes_of_all
from holdfast.streams.plans.pieces import Pieces
from holdfast.streams.plans.plan import Plan

Mode = Literal["official", "stationary"]
Exhaust = Literal["cycle", "stop", "error"]


class MarkovPlan(Plan):
    """Domain and class of every sample from a chain each (Du et al., arXiv 2407.20080); a stratum is one of each.

    `mode="stationary"`: `samples` in all, by default the size of the data times the domains; the chains start at a draw
    from their shares, and nothing is capped. `exhaust` says what happens when a stratum is used up: it starts again
    ("cycle"), the stream ends before the first repeat ("stop"), or an error is raised ("error"). With `endless`, such
    pieces follow one another, each drawn anew, so that any position costs one piece.
    `mode="official"`: the rules of the official code, see `official_states`; `samples_per_stratum` is by default the
    number that the data holds. All domains share one class chain, or each domain has its own. `pools` are the samples
    of each domain, by default all of them; classes that a domain lacks are left out.

    Args:
        domains: one for each state of the domain chain.
        labels: index of the class of each sample of the data.
        domain_chain: from which domains are drawn.
        class_chains: one for all domains, or one for each.
        severity: of every corruption, 0 to 5.
        pools: samples of each domain; None: all of them.
        mode: "stationary", or "official" for the rules of the official code.
        samples: length of a stationary stream; None: the size of the data times the number of domains.
        samples_per_stratum: of the official mode; None: the number that the data holds.
        exhaust: what happens when a stratum is used up: "cycle", "stop" or "error".
        endless: whether pieces follow one another without end.
        seed: of all draws.

    >>> labels = np.repeat(np.arange(10), 100)
    >>> chains = Chain(size=2, stay=0.9), [Chain(size=10, stay=0.95, imbalance=10)]
    >>> plan = MarkovPlan([Domain("fog", ("fog",)), Domain("clean")], labels, *chains, samples=50_000)
    >>> plan.length, round(plan.report().domains.realised_stay, 2), round(plan.report().classes.realised_stay, 2)
    (50000, 0.9, 0.88)
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        labels: NDArray[np.int64],
        domain_chain: Chain,
        class_chains: Sequence[Chain],
        *,
        severity: float = 5,
        pools: Pools | None = None,
        mode: Mode = "stationary",
        samples: int | None = None,
        samples_per_stratum: int | None = None,
        exhaust: Exhaust = "cycle",
        endless: bool = False,
        seed: int = 0,
    ) -> None:
        self.domains = tuple(domains)
        self.labels = labels
        self.classes, self.pools = classes_of_all(labels, pools), pools
        self._codes = np.searchsorted(self.classes, labels)  # of a class that a domain lacks: never read
        held = [np.arange(len(labels))] * len(domains) if pools is None else pools
        self._held = [pool[np.isin(labels[pool], self.classes)] for pool in held]
        self.domain_chain, self.class_chains = domain_chain, tuple(class_chains)
        self.severity = float(severity)
        self.mode, self.exhaust, self.endless = mode, exhaust, endless
        self.samples, self.samples_per_stratum = samples, samples_per_stratum
        self.seed = seed
        self._check()
        self._severities = np.zeros((len(domains), max(len(domain.corruptions) for domain in domains)))
        for row, domain in zip(self._severities, domains, strict=True):
            row[: len(domain.corruptions)] = severity
        if mode == "official":
            smallest = min(len(pool) for pool in self._held)
            self.samples_per_stratum = samples_per_stratum or max(1, smallest // len(self.classes))
        else:
            self.samples = samples or sum(len(pool) for pool in self._held)
        # Without a fixed number of samples the length is known only after drawing.
        self._pieces = Pieces(self._draw, self.samples if exhaust == "cycle" else None)
        self.length = None if endless else self._pieces.length

    def picks(self, start: int, stop: int) -> Picks:
        """Return the picks at positions `start` to `stop`."""
        self.check_span(start, stop)
        samples, domains = self._pieces.at(np.arange(start, stop))
        return Picks(samples, domains, self._severities[domains])

    def report(self, start: int = 0, stop: int | None = None) -> StreamReport:
        """Compare these positions with what the chains ask for; by default all of them, or the first piece."""
        picks = self.picks(start, self._pieces.length if stop is None else stop)
        chains = [self.domain_chain, self.class_chains[0]]
        if self.mode == "official":
            chains = [official_chain(chain) for chain in chains]
        sizes = len(self.domains), len(self.classes)
        one_for_all = chains[1] if len(self.class_chains) == 1 else None
        return report_on(picks, self._codes[picks.samples], chains[0], one_for_all, sizes)

    def spec(self) -> dict[str, Any]:
        """Return chains, domains and rules as plain JSON."""
        return {
            "kind": "markov",
            "version": 1,
            "domains": [domain.spec() for domain in self.domains],
            "severity": self.severity,
            "domain_chain": self.domain_chain.spec(),
            "class_chains": [chain.spec() for chain in self.class_chains],
            "mode": self.mode,
            "samples": self.samples,
            "samples_per_cell": self.samples_per_stratum,  # the key that committed fingerprints have
            "exhaust": self.exhaust,
            "endless": self.endless,
        }

    def __reduce__(self) -> tuple[Callable[..., MarkovPlan], tuple[Any, ...]]:
        # Only the arguments are pickled, not what was drawn so far.
        names = ("severity", "pools", "mode", "samples", "samples_per_stratum", "exhaust", "endless", "seed")
        rebuild = partial(MarkovPlan, **{name: getattr(self, name) for name in names})
        return rebuild, (self.domains, self.labels, self.domain_chain, self.class_chains)

    def _draw(self, index: int) -> NDArray[np.int32]:
        """Draw the domains and the classes of a piece, then the samples; (samples, domains)."""
        domains, classes = self._draw_states(index)
        turn = turns(domains * np.int32(len(self.classes)) + classes)
        if self.exhaust != "cycle":
            repeats = np.flatnonzero(turn >= stratum_sizes(self._codes, self._held)[domains, classes])
            end = int(repeats[0]) if len(repeats) else len(turn)
            if len(repeats) and self.exhaust == "error":
                raise ValueError(f"the first sample repeats at position {end}; pass samples={end}, or exhaust='cycle'")
            domains, classes, turn = domains[:end], classes[:end], turn[:end]
        rng = seeded_rng(self.seed, "samples", index)
        samples = deal(domains, classes, turn, self._codes, rng, None if self.pools is None else self._held)
        return np.stack([samples, domains])

    def _draw_states(self, index: int) -> tuple[States, States]:
        if self.samples is None:
            assert self.samples_per_stratum is not None
            rng = seeded_rng(self.seed, "states", index)
            return official_states(self.domain_chain, self.class_chains[0], self.samples_per_stratum, rng)
        domains = self.domain_chain.states(self.samples, seeded_rng(self.seed, "domain states", index))
        rng = seeded_rng(self.seed, "class states", index)
        if len(self.class_chains) == 1:
            return domains, self.class_chains[0].states(self.samples, rng)
        return domains, states_along(self.class_chains, domains, rng)

    def _check(self) -> None:
        wanted = [number for number in (self.samples, self.samples_per_stratum) if number is not None]
        if len(self.labels) and not len(self.classes):
            raise ValueError("no class occurs in every domain, so that no chain can leave both; pass other domains")
        if min([*wanted, len(self.labels), len(self.domains)]) < 1:
            raise ValueError("the stream needs at least one sample and one domain, and data with at least one sample")
        sizes = [self.domain_chain.size, *(chain.size for chain in self.class_chains)]
        if sizes not in ([len(self.domains), *[len(self.classes)] * count] for count in (1, len(self.domains))):
            raise ValueError(
                f"chains of {sizes} states do not fit {len(self.domains)} domains and {len(self.classes)} classes; "
                "pass one domain chain, and one class chain or one for each domain"
            )
        if self.mode == "official":
            self._check_official()
        else:
            self._check_stationary()

    def _check_official(self) -> None:
        chains = [self.domain_chain, *self.class_chains]
        own_end = self.samples is None and self.exhaust == "cycle" and not self.endless
        if len(chains) > 2 or not own_end or not all(chain.is_plain for chain in chains):
            raise ValueError(
                "mode='official' has one plain chain for domains and one for classes, and sets its own length; leave "
                "out samples, endless, exhaust, leaving, holding and class chains per domain, or pass mode='stationary'"
            )

    def _check_stationary(self) -> None:
        if self.samples_per_stratum is not None:
            raise ValueError("samples_per_stratum applies to mode='official' only; pass samples for mode='stationary'")
        if self.endless and self.exhaust != "cycle":
            raise ValueError(f"an endless stream needs exhaust='cycle', got {self.exhaust!r}")
        for chain in (self.domain_chain, *self.class_chains):
            chain.check()
