"""Streams that list their samples one by one: the short way to a stream of your own."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data import Dataset
from holdfast.randomness import seeded_rng
from holdfast.records import Domain, Picks
from holdfast.streams.plans.domains import domains_named
from holdfast.streams.plans.plan import Plan
from holdfast.streams.rendering import Draws, Rendering
from holdfast.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class ListedStream(ABC):
    """A stream of your own: a frozen dataclass whose fields are its options, and whose `order` lists the samples.

    Register the class with `STREAMS.register`. `order` has to draw from `rng` alone, which the seed of a run decides.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class FogForOdd(ListedStream):
    ...     severity: float = 3
    ...     def order(self, labels, rng):
    ...         for sample in rng.permutation(len(labels)):
    ...             yield sample, "fog" if labels[sample] % 2 else "clean", self.severity
    >>> from holdfast.data import Digits
    >>> stream = builder_of(FogForOdd)(Digits(), severity=2)
    >>> sorted(stream.domains), stream.length == len(stream.data.labels)
    (['clean', 'fog'], True)
    """

    @abstractmethod
    def order(self, labels: NDArray[np.int64], rng: np.random.Generator) -> Iterable[tuple[int, str, float]]:
        """Yield every sample of the stream: its index, its domain ("fog", "fog+snow" or "clean") and its severity."""


class ListedPlan(Plan):
    """A plan that holds all its picks."""

    def __init__(self, domains: Iterable[Domain], picks: Picks, seed: int, spec: dict[str, Any]) -> None:
        self.domains, self.length, self.seed = tuple(domains), len(picks), seed
        self._picks, self._spec = picks, spec

    def picks(self, start: int, stop: int) -> Picks:
        """Return the picks at positions `start` to `stop`, exclusive."""
        self.check_span(start, stop)
        listed = self._picks
        return Picks(listed.samples[start:stop], listed.domains[start:stop], listed.severities[start:stop])

    def spec(self) -> dict[str, Any]:
        """Return the name and the options of the stream."""
        return self._spec


def builder_of(kind: type[ListedStream]) -> Callable[..., Stream]:
    """Return the function that builds such a stream from data, its options, a seed and how it is rendered."""

    def build(
        data: Dataset, *, seed: int = 0, family: str | None = None, draws: Draws = "sample", **options: Any
    ) -> Stream:
        stream = kind(**options)
        listed = list(stream.order(data.labels, seeded_rng(seed, f"stream/{kind.__name__}")))
        if not listed:
            raise ValueError(f"{kind.__name__} lists no samples; yield at least one")
        samples, names, severities = (np.array(column) for column in zip(*listed, strict=True))
        named, rows = np.unique(names, return_inverse=True)
        domains = domains_named(named.tolist(), data)
        depths = np.array([len(domain.corruptions) for domain in domains])
        chosen = rows.reshape(-1).astype(np.int64)
        used = np.arange(max(1, depths.max())) < depths[chosen][:, None]  # 0 where a domain has no further corruption
        picks = Picks(samples.astype(np.int64), chosen, used * severities.astype(np.float64)[:, None])
        plan = ListedPlan(domains, picks, seed, {"listed": kind.__name__, **asdict(stream)})
        return Stream(plan, data, Rendering(seed=seed, family=family, draws=draws))

    given = [
        parameter for name, parameter in inspect.signature(build, eval_str=True).parameters.items() if name != "options"
    ]
    own = list(inspect.signature(kind, eval_str=True).parameters.values())
    vars(build)["__signature__"] = inspect.Signature([*given, *own])
    build.__annotations__ = {each.name: each.annotation for each in [*given, *own]}
    build.__doc__, build.__name__, build.__module__ = kind.__doc__, kind.__name__, kind.__module__
    return build
