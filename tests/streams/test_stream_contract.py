"""`check_stream` holds for every registered stream, and fails for streams that break one of its rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.data import InMemoryAudio, InMemoryImages, Shards
from holdfast.records import Batch, Picks
from holdfast.streams import STREAMS, Calibration, Stream, Transition, as_stored, continual, export_shards
from holdfast.streams.plans.plan import Plan
from holdfast.testing import check_stream

IMAGES = InMemoryImages(
    np.random.default_rng(0).integers(0, 256, (30, 32, 32, 3), dtype=np.uint8), np.arange(30) % 3, name="noise"
)
CLIPS = InMemoryAudio(
    np.float32(np.sin(np.outer(np.arange(1, 7), np.arange(4_000)) / 9)), np.arange(6) % 3, sample_rate=16_000
)
PATH = Transition("contrast", "gaussian_noise", ((2, 0), (1, 0), (1, 1), (0, 1)), (30.0, 50.0, 40.0, 60.0))
NAMES = ["gaussian_noise", "clean", "shot_noise+contrast"]
OPTIONS: dict[str, dict[str, Any]] = {  # the smallest options of each stream
    **{name: {"corruptions": NAMES, "samples_per_domain": 10} for name in ("continual", "correlated", "mixed_domains")},
    "reset_each_shift": {"corruptions": NAMES, "samples_per_domain": 10},
    "gradual": {"corruptions": NAMES[:1], "samples_per_domain": 5},
    "markov": {"corruptions": NAMES, "classes": {"stay": 0.9}, "endless": True},
    "unitta": {"corruptions": NAMES, "setting": "(n,u)/(n,u)"},
    "ccc": {"calibration": Calibration((PATH,), 40.0, storage_jpeg_quality=85), "images_per_step": 10, "cycles": None},
    "cross": {"calibration": Calibration((PATH,), 40.0), "images_per_step": 10, "classes": {"stay": 0.9}},
    "dhauds": {"criteria": ["WHN-L1", "PSH-L2"]},
}


@pytest.mark.parametrize("name", list(STREAMS))
def test_every_stream_keeps_the_contract(name: str, tmp_path: Path) -> None:
    if name == "as_stored":
        export_shards(continual(IMAGES, corruptions=NAMES, samples_per_domain=10), tmp_path)
        check_stream(lambda seed: as_stored(Shards(paths=tmp_path), seed=seed))
        return
    assert name in OPTIONS, f"add the smallest options of the stream {name!r} to OPTIONS in {__file__}"
    data = CLIPS if name == "dhauds" else IMAGES
    check_stream(lambda seed: STREAMS[name](data, **OPTIONS[name], seed=seed))


class Wrong(Plan):
    """The plan of a stream with one thing changed."""

    def __init__(self, plan: Plan, change: Callable[[Picks, int], Picks]) -> None:
        self.plan, self.change = plan, change
        self.domains, self.length, self.seed = plan.domains, plan.length, plan.seed

    def picks(self, start: int, stop: int) -> Picks:
        return self.change(self.plan.picks(start, stop), start)

    def spec(self) -> dict[str, Any]:
        return self.plan.spec()


def shifted(picks: Picks, _start: int, *, by: int) -> Picks:
    return replace(picks, samples=picks.samples + by)


def relative(picks: Picks, _start: int) -> Picks:
    return replace(picks, samples=np.arange(len(picks)) % 30)


def too_severe(picks: Picks, _start: int) -> Picks:
    return replace(picks, severities=picks.severities + 1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (partial(shifted, by=30), "not one of 30 samples"),
        (partial(shifted, by=-30), "not one of 30 samples"),
        (relative, "samples depend on where reading starts"),
        (too_severe, "not between 0 and 5"),
    ],
)
def test_wrong_picks_are_found(change: Callable[[Picks, int], Picks], problem: str) -> None:
    plan = continual(IMAGES, corruptions=["contrast"]).plan
    with pytest.raises(AssertionError, match=problem):
        check_stream(Stream(Wrong(plan, change), IMAGES))


class Relabelled(Stream):
    """Labels in the order of the data."""

    def render(self, start: int, stop: int) -> Batch:
        return replace(super().render(start, stop), labels=self.data.labels[start:stop])


class BatchDependent(Stream):
    """Inputs that depend on the size of the batch."""

    def render(self, start: int, stop: int) -> Batch:
        batch = super().render(start, stop)
        return replace(batch, inputs=batch.inputs / len(batch))


class StartDependent(Stream):
    """Inputs that depend on the place within the batch, the same for every full read."""

    def render(self, start: int, stop: int) -> Batch:
        batch = super().render(start, stop)
        return replace(batch, inputs=batch.inputs + torch.arange(len(batch))[:, None, None, None])


class SeedLess(Stream):
    """A fingerprint without the seed of the draws."""

    @property
    def fingerprint(self) -> str:
        return self.protocol

    def redrawn(self, seed: int | None = None) -> Stream:
        other = super().redrawn(seed)
        return SeedLess(other.plan, other.data, other.rendering)


class Unbroken(Stream):
    """Batches that cross a change of domain."""

    def _spans(self, position: int, stop: int | None, batch_size: int) -> Any:
        end = min(number for number in (stop, self.length) if number is not None)
        for start in range(position, end, batch_size):
            yield start, min(start + batch_size, end)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Relabelled, "wrong labels at 0"),
        (BatchDependent, "inputs differ"),
        (StartDependent, "inputs differ"),
        (SeedLess, "other draws have the same fingerprint"),
        (Unbroken, "crosses a break of the plan"),
    ],
)
def test_wrong_streams_are_found(kind: type[Stream], problem: str) -> None:
    plan = continual(IMAGES, corruptions=["gaussian_noise", "clean"], samples_per_domain=10).plan
    check_stream(Stream(plan, IMAGES))
    with pytest.raises(AssertionError, match=problem):
        check_stream(kind(plan, IMAGES))


def test_a_builder_that_ignores_its_seed_is_found() -> None:
    with pytest.raises(AssertionError, match="streams of two seeds have equal fingerprints"):
        check_stream(lambda _: continual(IMAGES, corruptions=["clean"]))
    changing = iter(range(10))
    with pytest.raises(AssertionError, match="two streams of one seed have different fingerprints"):
        check_stream(lambda _: continual(IMAGES, corruptions=["clean"], seed=next(changing)))
