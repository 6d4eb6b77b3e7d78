"""Contracts of a stream: the same samples however it is read, and a fingerprint that tells inputs apart."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import torch

from holdfast.records import Batch
from holdfast.streams import Stream
from holdfast.testing.contract import contract, sentence_of

FAR = 10**6  # where an endless stream is read as well


def check_stream(stream: Stream | Callable[[int], Stream], *, samples: int = 40) -> None:
    """Run every contract on the first samples of a stream and print a line for each; a violation raises AssertionError.

    Args:
        stream: a stream, or a function that builds one from a seed, to check the seeds too.
        samples: number of first samples to read.

    >>> from holdfast.data import Digits
    >>> from holdfast.streams import continual
    >>> check_stream(lambda seed: continual(Digits(), corruptions=["fog"], seed=seed))  # doctest: +ELLIPSIS
    holds: ...
    """
    if not isinstance(stream, Stream):
        with contract(sentence_of(check_seeds)):
            check_seeds(stream, samples)
        stream = stream(0)
    end = samples if stream.length is None else min(samples, stream.length)
    assert end > 0, "the stream has no samples"
    for check in STREAM_CHECKS:
        with contract(sentence_of(check)):
            check(stream, end)


def check_seeds(build: Callable[[int], Stream], samples: int) -> None:
    """Equal seeds build equal streams; another seed has another fingerprint under the same protocol."""
    first, second, other = build(0), build(0), build(1)
    assert first.fingerprint == second.fingerprint, "two streams of one seed have different fingerprints"
    end = samples if first.length is None else min(samples, first.length)
    _same([first.render(0, end)], [second.render(0, end)], "two streams of one seed")
    assert other.fingerprint != first.fingerprint, "streams of two seeds have equal fingerprints"
    assert other.protocol == first.protocol, "the protocol depends on the seed"


def check_picks(stream: Stream, end: int) -> None:
    """Picks refer to samples, domains and severities that exist, and any part of them is what the whole says."""
    plan, size = stream.plan, len(stream.data.labels)
    assert plan.length == stream.length, f"the plan has {plan.length} samples, the stream {stream.length}"
    assert len({domain.name for domain in plan.domains}) == len(plan.domains), "two domains have the same name"
    for start in (0, FAR) if plan.length is None else (0,):
        whole = plan.picks(start, start + end)
        assert len(whole) == len(whole.domains) == len(whole.severities) == end, f"fewer or more than {end} picks"
        assert ((whole.samples >= 0) & (whole.samples < size)).all(), f"a pick is not one of {size} samples"
        assert ((whole.domains >= 0) & (whole.domains < len(plan.domains))).all(), "a pick has an unknown domain"
        assert ((whole.severities >= 0) & (whole.severities <= 5)).all(), "a severity is not between 0 and 5"
        for number, severities in zip(whole.domains, whole.severities, strict=True):
            corruptions = plan.domains[number].corruptions
            assert len(corruptions) <= len(severities), f"{plan.domains[number].name} has too few severities"
            assert not severities[len(corruptions) :].any(), f"{plan.domains[number].name} has too many severities"
        middle = end // 2
        part = plan.picks(start + middle, start + end)
        for field in ("samples", "domains", "severities"):
            same = np.array_equal(getattr(part, field), getattr(whole, field)[middle:])
            assert same, f"{field} depend on where reading starts"


def check_batches(stream: Stream, end: int) -> None:
    """Batches hold the labels and domains of their picks, follow one another, and end where the plan breaks."""
    batches = list(stream.starting_at(0, stop=end, batch_size=7))
    positions = [*(batch.position for batch in batches), end]
    assert positions[0] == 0, f"the first batch is at position {positions[0]}"
    for batch, (start, stop) in zip(batches, pairwise(positions), strict=True):
        assert len(batch) == stop - start <= 7, f"the batch at {start} has {len(batch)} samples"
        picks = stream.plan.picks(start, stop)
        assert np.array_equal(batch.labels, stream.data.labels[picks.samples]), f"wrong labels at {start}"
        assert batch.domains == tuple(stream.domains[number] for number in picks.domains), f"wrong domains at {start}"
        assert batch.inputs.shape == (len(batch), *stream.input_spec.shape), f"wrong shape at {start}"
        assert batch.inputs.dtype == torch.float32, f"inputs are {batch.inputs.dtype}"
        assert torch.isfinite(batch.inputs).all(), f"non-finite inputs at {start}"
        assert batch.new_episode == stream.plan.starts_episode(start), f"wrong episode at {start}"
        next_break = stream.plan.next_break(start)
        assert next_break is None or start < stop <= next_break, f"the batch at {start} crosses a break of the plan"
        assert batch.expected is None or 0 <= batch.expected <= 1, f"expected accuracy {batch.expected} at {start}"


def check_same_samples(stream: Stream, end: int) -> None:
    """The samples are the same for any batch size, number of workers and starting position."""
    expected = list(stream.starting_at(0, stop=end))
    whole = _joined(expected)
    for batch_size, workers in ((1, 0), (7, 0), (7, 2)):
        actual = stream.starting_at(0, stop=end, batch_size=batch_size, workers=workers)
        _same(expected, actual, f"samples in batches of {batch_size} with {workers} workers")
    for start in sorted({end // 3, end // 2, end - 1}):
        inputs, labels, domains = _joined(stream.starting_at(start, stop=end))
        assert (labels, domains) == (whole[1][start:], whole[2][start:]), f"labels or domains differ from {start} on"
        assert torch.equal(inputs, whole[0][start:]), f"inputs differ when reading starts at {start}"


def check_fingerprint(stream: Stream, end: int) -> None:
    """Equal fingerprints mean equal inputs; other draws have another fingerprint under the same protocol."""
    assert json.loads(json.dumps(stream.spec)) == stream.spec, "the spec is not plain JSON"
    redrawn = stream.redrawn()
    assert redrawn.fingerprint != stream.fingerprint, "other draws have the same fingerprint"
    assert redrawn.protocol == stream.protocol, "the protocol depends on the draws"
    assert np.array_equal(redrawn.render(0, end).labels, stream.render(0, end).labels), "redrawing changed the order"
    again = stream.redrawn(stream.rendering.seed)
    assert again.fingerprint == stream.fingerprint, "the fingerprint is not that of the rendering's seed"
    _same([stream.render(0, end)], [again.render(0, end)], "two streams of equal fingerprint")


def check_pickling(stream: Stream, end: int) -> None:
    """A pickled stream, as another process receives it, has the same fingerprint and the same samples."""
    received = pickle.loads(pickle.dumps(stream))
    assert received.fingerprint == stream.fingerprint, "pickling changes the fingerprint"
    _same([stream.render(0, end)], [received.render(0, end)], "samples of a pickled stream")


STREAM_CHECKS: tuple[Callable[[Stream, int], None], ...] = (
    check_picks,
    check_batches,
    check_same_samples,
    check_fingerprint,
    check_pickling,
)


def _same(expected: Iterable[Batch], actual: Iterable[Batch], what: str) -> None:
    (inputs, *facts), (other_inputs, *other_facts) = _joined(expected), _joined(actual)
    assert facts == other_facts, f"{what}: labels or domains differ"
    assert torch.equal(inputs, other_inputs), f"{what}: inputs differ"


def _joined(batches: Iterable[Batch]) -> tuple[torch.Tensor, list[int], list[str]]:
    batches = list(batches)
    return (
        torch.cat([batch.inputs for batch in batches]),
        [int(label) for batch in batches for label in batch.labels],
        [domain for batch in batches for domain in batch.domains],
    )
