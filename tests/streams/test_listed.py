"""A stream of one's own is one short class, and keeps the contracts of every stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.data import Digits
from holdfast.options.spec import Spec
from holdfast.streams import STREAMS, ListedStream
from holdfast.testing import check_stream


@dataclass(frozen=True, kw_only=True)
class Pulses(ListedStream):
    """Fog in pulses."""

    length: int = 20
    severity: float = 3
    samples: int = 80

    def order(self, labels: NDArray[np.int64], rng: np.random.Generator) -> Iterator[tuple[int, str, float]]:
        for number, sample in enumerate(rng.permutation(len(labels))[: self.samples]):
            yield sample, ("fog", "clean", "fog+contrast")[number // self.length % 3], self.severity


@dataclass(frozen=True, kw_only=True)
class Nothing(ListedStream):
    """No samples."""

    def order(self, labels: NDArray[np.int64], rng: np.random.Generator) -> Iterable[tuple[int, str, float]]:
        return []


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    STREAMS.register("pulses")(Pulses)
    yield
    STREAMS.discard("pulses")


def test_it_keeps_the_contracts_of_a_stream() -> None:
    check_stream(STREAMS["pulses"](Digits(), seed=1))


def test_samples_domains_and_severities_are_those_it_lists() -> None:
    data = Digits()
    stream = STREAMS["pulses"](data, length=4, samples=12, severity=2)
    batch = stream.render(0, 12)
    assert batch.domains == ("fog",) * 4 + ("clean",) * 4 + ("fog+contrast",) * 4
    picks = stream.plan.picks(0, 12)
    assert np.array_equal(data.labels[picks.samples], batch.labels)
    assert picks.severities[:, 0].tolist() == [2.0] * 4 + [0.0] * 4 + [2.0] * 4


def test_its_fields_are_its_options() -> None:
    wrong = list(Spec("pulses", options={"lenght": 3}).problems(STREAMS, {"data", "seed"}))
    assert wrong == [("lenght", "stream 'pulses' has no option 'lenght'; did you mean 'length'?")]
    with pytest.raises(ValueError, match="length of stream 'Pulses' must be a whole number, got 'long'"):
        STREAMS["pulses"](Digits(), length="long")
    assert STREAMS["pulses"].summary == "Fog in pulses."
    one, other = (STREAMS["pulses"](Digits(), length=length) for length in (2, 3))
    assert one.protocol != other.protocol
    assert STREAMS["pulses"](Digits(), seed=1).protocol == STREAMS["pulses"](Digits(), seed=2).protocol


def test_a_stream_without_samples_is_refused() -> None:
    STREAMS.register("nothing")(Nothing)
    try:
        with pytest.raises(ValueError, match="Nothing lists no samples"):
            STREAMS["nothing"](Digits())
    finally:
        STREAMS.discard("nothing")
