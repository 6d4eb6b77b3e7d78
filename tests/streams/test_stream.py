from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import islice

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions import CORRUPTIONS, frost_from
from holdfast.data import InMemoryImages
from holdfast.records import Batch, Domain, Picks
from holdfast.streams import STREAMS, Plan, Rendering, Stream, continual, mixed_domains, reset_each_shift

NAMES = ["gaussian_noise", "clean", "shot_noise+contrast"]


@pytest.fixture(scope="module")
def mixed(few: InMemoryImages) -> Stream:
    return mixed_domains(few, corruptions=NAMES, severity=3, order="correlated", seed=5)


def joined(batches: Iterable[Batch]) -> tuple[torch.Tensor, list[int], list[str]]:
    batches = list(batches)
    return (
        torch.cat([batch.inputs for batch in batches]),
        [int(label) for batch in batches for label in batch.labels],
        [domain for batch in batches for domain in batch.domains],
    )


def assert_same(one: Iterable[Batch], other: Iterable[Batch]) -> None:
    (inputs, *rest), (other_inputs, *other_rest) = joined(one), joined(other)
    assert rest == other_rest
    assert torch.equal(inputs, other_inputs)


@pytest.mark.parametrize("make", [continual, mixed_domains])
@pytest.mark.parametrize("draws", ["sample", "position"])
def test_same_samples_for_every_batch_size_and_worker_count(
    few: InMemoryImages, make: Callable[..., Stream], draws: str
) -> None:
    stream = make(few, corruptions=NAMES, samples_per_domain=15, draws=draws)
    reference = list(stream.starting_at(0, batch_size=64))
    for batch_size in (1, 7, 64):
        for workers in (0, 2):
            batches = list(stream.starting_at(0, batch_size=batch_size, workers=workers))
            assert_same(reference, batches)
            assert [b.position for b in batches] == np.cumsum([0, *map(len, batches)])[:-1].tolist()
            assert max(map(len, batches)) <= batch_size


@pytest.mark.parametrize("position", [0, 1, 49, 50, 77, 149])
def test_resuming_anywhere_gives_the_same_future(mixed: Stream, position: int) -> None:
    whole = joined(mixed)
    rest = joined(mixed.starting_at(position, batch_size=16))
    assert torch.equal(rest[0], whole[0][position:])
    assert rest[1:] == (whole[1][position:], whole[2][position:])


def test_starting_at_the_end_yields_nothing_and_beyond_is_refused(mixed: Stream) -> None:
    assert list(mixed.starting_at(150)) == []
    with pytest.raises(ValueError, match="at most 150"):
        mixed.starting_at(151)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        mixed.starting_at(0, batch_size=0)


def test_inputs_are_what_networks_take(mixed: Stream) -> None:
    batch = next(iter(mixed))
    assert batch.inputs.shape == (64, *mixed.input_spec.shape)
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.is_contiguous()
    assert 0 <= batch.inputs.min() < batch.inputs.max() <= 1
    assert set(batch.domains) == set(mixed.domains) == set(NAMES)
    assert mixed.num_classes == 10


def test_clean_samples_are_the_data_itself(few: InMemoryImages) -> None:
    stream = mixed_domains(few, corruptions=NAMES)
    picks = stream.plan.picks(0, 150)
    inputs, labels, domains = joined(stream)
    clean = np.array(domains) == "clean"
    pixels = few.images[picks.samples[clean]].transpose(0, 3, 1, 2)
    assert np.array_equal(inputs[clean].numpy(), pixels.astype(np.float32) / np.float32(255))
    assert labels == few.labels[picks.samples].tolist()


def test_data_that_hands_out_its_own_memory_is_not_written_to(few: InMemoryImages) -> None:
    class Lent(InMemoryImages):
        def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
            return self.images[: len(indices)]

    lent = Lent(few.images.copy(), few.labels)
    continual(lent, corruptions=["contrast"]).first(50)
    assert np.array_equal(lent.images, few.images)


@pytest.mark.slow
def test_joined_corruptions_are_applied_one_after_the_other(few: InMemoryImages) -> None:
    """The second corruption is applied to the outputs of the first; contrast draws nothing."""
    first = continual(few, corruptions=["shot_noise"], severity=4)
    joint = continual(few, corruptions=["shot_noise+contrast"], severity=4)
    noisy = (first.first(50).permute(0, 2, 3, 1).numpy() * 255).round().astype(np.uint8)
    data = InMemoryImages(noisy, first.data.labels[first.plan.picks(0, 50).samples])
    both = continual(data, corruptions=["contrast"], severity=4)
    order = both.plan.picks(0, 50).samples
    assert torch.equal(both.first(50), joint.first(50)[torch.from_numpy(order)])


def test_twice_the_same_corruption_draws_twice() -> None:
    """Two independent noises add up to √2 of one; twice the same noise would add up to 2."""
    data = InMemoryImages(np.full((20, 32, 32, 3), 128, np.uint8), np.arange(20))
    once, twice = (
        continual(data, corruptions=[name], severity=1).first(20).std()
        for name in ("gaussian_noise", "gaussian_noise+gaussian_noise")
    )
    assert twice / once == pytest.approx(2**0.5, rel=0.05)


def test_draws_follow_the_sample_or_the_position(few: InMemoryImages) -> None:
    def looks(**options: object) -> dict[int, list[torch.Tensor]]:
        stream = continual(few, corruptions=["gaussian_noise"], cycles=2, **options)  # type: ignore[arg-type]
        images: dict[int, list[torch.Tensor]] = {}
        for sample, image in zip(stream.plan.picks(0, 100).samples.tolist(), joined(stream)[0], strict=True):
            images.setdefault(sample, []).append(image)
        return images

    assert all(torch.equal(*visits) for visits in looks().values())
    assert not any(torch.equal(*visits) for visits in looks(draws="position").values())
    one, other = looks(), looks(seed=1)
    assert not any(torch.equal(one[sample][0], other[sample][0]) for sample in one)
    with pytest.raises(ValueError, match="draws of stream 'continual' must be 'sample' or 'position', got"):
        looks(draws="sampel")


def test_severity_zero_leaves_a_sample_alone(few: InMemoryImages) -> None:
    untouched = continual(few, corruptions=["clean"])
    assert torch.equal(continual(few, corruptions=["gaussian_noise"], severity=0).first(50), untouched.first(50))


def test_storage_is_the_last_stage(few: InMemoryImages) -> None:
    stored = continual(few, corruptions=["clean"], storage_jpeg_quality=85)
    sample = int(stored.plan.picks(0, 1).samples[0])
    file = io.BytesIO()
    Image.fromarray(few.images[sample]).save(file, "JPEG", quality=85)
    pixels = np.asarray(Image.open(file)).transpose(2, 0, 1)
    assert np.array_equal(stored.first(1)[0].numpy(), pixels.astype(np.float32) / np.float32(255))
    assert not np.array_equal(pixels, few.images[sample].transpose(2, 0, 1))


def test_batches_end_with_their_domain_and_begin_episodes(few: InMemoryImages) -> None:
    stream = reset_each_shift(few, corruptions=["contrast", "clean"], samples_per_domain=20)
    batches = list(stream.starting_at(0, batch_size=16))
    assert [(b.position, len(b), b.new_episode) for b in batches] == [
        (0, 16, True),
        (16, 4, False),
        (20, 16, True),
        (36, 4, False),
    ]
    assert all(len(set(batch.domains)) == 1 for batch in batches)
    assert next(stream.starting_at(20)).new_episode
    assert not next(stream.starting_at(21)).new_episode
    assert not any(b.new_episode for b in continual(few, corruptions=["contrast", "clean"]))


def test_first_gives_inputs_without_labels(mixed: Stream) -> None:
    assert torch.equal(mixed.first(100), joined(mixed)[0][:100])
    assert len(mixed.first(1000)) == 150
    with pytest.raises(ValueError, match="at least 1"):
        mixed.first(0)


def test_an_endless_stream_runs_ahead_a_little_and_leaves_no_thread_behind(few: InMemoryImages) -> None:
    rendered: list[int] = []

    class Watched(Stream):
        def render(self, start: int, stop: int) -> Batch:
            rendered.append(start)
            return super().render(start, stop)

    endless = continual(few, corruptions=["clean"], cycles=None)
    stream = Watched(endless.plan, few)
    before = set(threading.enumerate())
    batches = stream.starting_at(10**6, batch_size=8, workers=2)
    assert [batch.position for batch in islice(batches, 3)] == [10**6, 10**6 + 8, 10**6 + 16]
    batches.close()
    assert set(threading.enumerate()) == before
    assert len(rendered) <= 3 + 2 * 2
    finished = continual(few, corruptions=["clean"]).starting_at(0, batch_size=20, workers=3)
    assert len(list(finished)) == 3
    assert set(threading.enumerate()) == before


class Broken(InMemoryImages):
    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        if 7 in indices:
            raise OSError("file 7 is damaged")
        return super().inputs(indices)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_arrives_at_its_batch_and_ends_the_threads(few: InMemoryImages, workers: int) -> None:
    before = set(threading.enumerate())
    stream = continual(Broken(few.images, few.labels), corruptions=["clean"], seed=2)
    position = int(np.flatnonzero(stream.plan.picks(0, 50).samples == 7)[0])
    batches = stream.starting_at(0, batch_size=5, workers=workers)
    assert len(list(islice(batches, position // 5))) == position // 5
    with pytest.raises(OSError, match="file 7 is damaged"):
        next(batches)
    assert set(threading.enumerate()) == before


def test_fingerprints_tell_every_stream_apart(few: InMemoryImages) -> None:
    other_data = InMemoryImages(255 - few.images, few.labels, name="few")
    streams = [
        continual(few, corruptions=NAMES),
        continual(few, corruptions=NAMES, seed=1),
        continual(few, corruptions=NAMES[::-1]),
        continual(few, corruptions=NAMES[:2]),
        continual(few, corruptions=NAMES, severity=4),
        continual(few, corruptions=NAMES, samples_per_domain=49),
        continual(few, corruptions=NAMES, cycles=2),
        continual(few, corruptions=NAMES, cycles=None),
        continual(few, corruptions=NAMES, order="sorted"),
        continual(few, corruptions=NAMES, order="correlated"),
        continual(few, corruptions=NAMES, order="correlated", concentration=0.2),
        continual(few, corruptions=NAMES, order="correlated", slots=3),
        continual(few, corruptions=NAMES, draws="position"),
        continual(few, corruptions=NAMES, storage_jpeg_quality=85),
        continual(few, corruptions=NAMES, family="224"),
        continual(other_data, corruptions=NAMES),
        reset_each_shift(few, corruptions=NAMES),
        mixed_domains(few, corruptions=NAMES),
        STREAMS["gradual"](few, corruptions=NAMES),
        STREAMS["gradual"](few, corruptions=NAMES, severities=(1, 2)),
        Stream(continual(few, corruptions=NAMES, seed=1).plan, few),
    ]
    assert len({stream.fingerprint for stream in streams}) == len(streams)
    assert streams[0].protocol == streams[1].protocol == streams[-1].protocol
    assert len({stream.protocol for stream in streams}) == len(streams) - 2
    assert all(json.loads(json.dumps(stream.spec)) == stream.spec for stream in streams)
    again = continual(few, corruptions=NAMES)
    assert (again.fingerprint, again.protocol) == (streams[0].fingerprint, streams[0].protocol)
    assert continual(few, corruptions=NAMES, severity=5.0, samples_per_domain=50).fingerprint == streams[0].fingerprint
    one, other = (continual(few, corruptions=NAMES, order="correlated", concentration=c) for c in (1, 1.0))
    assert one.fingerprint == other.fingerprint
    named = STREAMS["correlated"](few, corruptions=NAMES, concentration=0.2)
    assert named.fingerprint == streams[10].fingerprint


def test_fingerprints_tell_custom_corruptions_of_one_name_apart(
    few: InMemoryImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = []
    for level in (50, 200):
        frost = frost_from([np.full((90, 90, 3), level, np.uint8)], name="window")
        monkeypatch.setitem(vars(CORRUPTIONS)["_entries"], "window", frost)
        stream = continual(few, corruptions=["window"])
        streams.append((stream.first(1), stream.fingerprint, stream.protocol))
    (first, *digests), (second, *others) = streams
    assert not torch.equal(first, second)
    assert all(one != other for one, other in zip(digests, others, strict=True))
    assert "own" not in continual(few, corruptions=["frost"]).spec


def test_a_stream_travels_to_another_process(mixed: Stream) -> None:
    travelled = pickle.loads(pickle.dumps(mixed))
    assert travelled.fingerprint == mixed.fingerprint
    assert torch.equal(travelled.first(5), mixed.first(5))


PROGRAM = """
import hashlib
import numpy as np
from holdfast.corruptions import CORRUPTIONS, frost_from
from holdfast.data import InMemoryImages
from holdfast.streams import correlated

images = np.arange(20 * 32 * 32 * 3, dtype=np.uint32).reshape(20, 32, 32, 3).astype(np.uint8)
stream = correlated(InMemoryImages(images, np.arange(20) % 4), corruptions=["gaussian_noise", "contrast"], seed=3)
facts = [stream.fingerprint, hashlib.sha256(stream.first(40).numpy().tobytes()).hexdigest()]
"""


@pytest.mark.slow
def test_fingerprint_and_pixels_are_the_same_in_another_process() -> None:
    here: dict[str, list[str]] = {}
    exec(PROGRAM, here)
    there = subprocess.run(
        [sys.executable, "-c", f"{PROGRAM}\nprint(*facts)"], capture_output=True, text=True, check=True
    )
    assert there.stdout.split() == here["facts"]


def test_what_a_plan_promises_is_enough_for_a_stream(few: InMemoryImages) -> None:
    """A third-party plan with severities that change at every pick is rendered like any other."""

    class Walk(Plan):
        domains = (Domain("walk", ("contrast", "brightness")),)
        length = None
        seed = 0

        def picks(self, start: int, stop: int) -> Picks:
            position = np.arange(start, stop)
            severities = np.stack([(position % 21) / 4, (20 - position % 21) / 4], axis=1)
            return Picks(position % 50, np.zeros_like(position), severities)

        def spec(self) -> dict[str, object]:
            return {"kind": "walk"}

    stream = Stream(Walk(), few, Rendering(draws="position"))
    assert_same(islice(stream.starting_at(30, batch_size=9), 4), islice(stream.starting_at(30, batch_size=12), 3))
