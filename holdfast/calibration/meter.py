"""Measure which samples a model classifies correctly under corruption; nothing is measured twice."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from holdfast.calibration.settings import CalibrationSettings
from holdfast.calibration.store import Store
from holdfast.corruptions import CORRUPTION_VERSION, CORRUPTIONS, store_as_jpeg
from holdfast.data import Dataset, crop_for
from holdfast.data.tensors import as_inputs
from holdfast.machine.stopping import stop_if_asked
from holdfast.models import Classifier, weights_digest
from holdfast.models.probing import untouched
from holdfast.randomness import seeded_rng
from holdfast.streams.walks.path import GridPoint

VERSION = 1  # raised whenever the same key would give other outcomes than before
USUAL_POINTS = 60  # of a pair, to estimate the remaining work
ROUND = 100  # samples that are added and predicted together; always the same ones, for equal rounding
KEEP_SECONDS = 10.0  # after which outcomes are stored, should the process be killed

Treatment: TypeAlias = tuple[tuple[str, int], ...]  # corruptions with levels, applied in order; () is clean


def treatment_of(pair: tuple[str, str], point: GridPoint) -> Treatment:
    """Return the treatment at a point of a pair's grid; points on an axis are shared by all pairs.

    >>> treatment_of(("fog", "snow"), (0, 3)), treatment_of(("fog", "snow"), (0, 0))
    ((('snow', 3),), ())
    """
    return tuple((name, level) for name, level in zip(pair, point, strict=True) if level)


@dataclass(frozen=True)
class CalibrationProgress:
    """The progress of a calibration, counted in predictions on corrupted samples."""

    pair: str  # empty while the pool is measured
    done: int
    saved: int  # known already from another pair or an earlier calibration
    left: int  # estimated


class Meter:
    """Which samples one model classifies correctly under any treatment; kept in memory and on disk.

    All treatments share samples and draws, so that they differ by their effect and not by sampling. The first n samples
    have the class proportions of the data, for any n.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Dataset,
        settings: CalibrationSettings,
        *,
        cache: Path,
        tell: Callable[[CalibrationProgress], None],
    ) -> None:
        example = as_inputs(data.inputs(np.zeros(1, np.int64)))
        self.model = model if isinstance(model, Classifier) else Classifier(model, example=example)
        self.data, self.settings, self.seed = data, settings, settings.picture_seed
        self.samples = spread_over_classes(data.labels, seeded_rng(self.seed, "calibration pictures"))
        self.samples = self.samples[: settings.pictures]
        rate = data.input_spec.sample_rate
        self.known: dict[str, Any] = {"family": settings.family} if rate is None else {"sample_rate": rate}
        self.crop = crop_for(data, settings.crop)
        self.model_digest, self.data_digest = weights_digest(self.model.module), data.digest
        self.store = Store(cache / self._key())
        self.tell = tell
        self.pair, self.pairs_left = "", 0  # for progress reports only
        self.done = self.saved = 0
        self._outcomes: dict[Treatment, NDArray[np.bool_]] = {}
        self._asked: dict[tuple[str, Treatment], int] = {}
        self._read: set[str] = set()  # files

    def __getstate__(self) -> dict[str, Any]:
        """Leave out whom it tells its progress: that is in the process of the caller."""
        return {**self.__dict__, "tell": _tell_nobody}

    def add(self, elsewhere: CalibrationProgress) -> None:
        """Count what another process has measured, and report it."""
        self.done, self.saved = self.done + elsewhere.done, self.saved + elsewhere.saved
        self.tell(CalibrationProgress(elsewhere.pair, self.done, self.saved, elsewhere.left))

    @property
    def rounds(self) -> list[int]:
        """The number of samples after each round; the last is their total."""
        total = len(self.samples)
        return [min(count, total) for count in range(ROUND, total + ROUND, ROUND)]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels of the samples, in their order."""
        return self.data.labels[self.samples]

    def percent(self, treatment: Treatment) -> float:
        """Return the accuracy under a treatment, over all samples."""
        return 100 * float(self.outcomes([treatment], len(self.samples)).mean())

    def forget_reading(self) -> None:
        """Read stored outcomes again when they are next needed: another process may have added some."""
        self._read.clear()

    def expect(self, pairs: int) -> None:
        """Say how many pairs are to come."""
        self.pairs_left = pairs

    def turn_to(self, pair: tuple[str, str]) -> None:
        """Set the pair that the next outcomes are for; outcomes known already count as saved."""
        self.pair = "+".join(pair)
        self.pairs_left -= 1

    def outcomes(self, treatments: Sequence[Treatment], count: int) -> NDArray[np.bool_]:
        """Return which of the first `count` samples, one of `rounds`, are correct, (treatments, samples)."""
        for treatment in treatments:
            self._recall(treatment)
            there = min(count, len(self._outcomes[treatment]))
            self.saved += max(0, there - self._asked.get((self.pair, treatment), 0))
            self._asked[self.pair, treatment] = count
        missing = {treatment for treatment in treatments if len(self._outcomes[treatment]) < count}
        try:
            self._measure(missing, count)
        finally:  # also when it is stopped
            self._keep(missing)
        return np.stack([self._outcomes[treatment][:count] for treatment in treatments])

    def _measure(self, missing: set[Treatment], count: int) -> None:
        left = sum(count - len(self._outcomes[treatment]) for treatment in missing)
        kept = time.monotonic()
        with untouched(self.model):
            for start in range(0, count, ROUND):
                todo = [treatment for treatment in missing if len(self._outcomes[treatment]) == start]
                for treatment, right in self._measured(todo, self.samples[start : min(count, start + ROUND)]):
                    self._outcomes[treatment] = np.concatenate([self._outcomes[treatment], right])
                    self.done += len(right)
                    left -= len(right)
                    later = max(0, self.pairs_left) * USUAL_POINTS * len(self.samples)
                    self.tell(CalibrationProgress(self.pair, self.done, self.saved, left + later))
                    stop_if_asked()
                    if time.monotonic() - kept > KEEP_SECONDS:
                        self._keep(missing)
                        kept = time.monotonic()

    def _measured(
        self, treatments: list[Treatment], samples: NDArray[np.int64]
    ) -> Iterator[tuple[Treatment, NDArray[np.bool_]]]:
        """Yield the outcomes of every treatment; treatments with a common beginning share the corrupted samples."""
        clean = self.uncorrupted(samples)
        for beginning, group in groupby(
            sorted(treatments, key=lambda treatment: (treatment[:-1], treatment)), lambda treatment: treatment[:-1]
        ):
            begun = self.corrupted(clean, beginning, samples)
            for treatment in group:
                yield treatment, self._right(self.corrupted(begun, treatment[-1:], samples), samples)

    def uncorrupted(self, samples: NDArray[np.int64]) -> NDArray[Any]:
        """Return the samples before any corruption, each with its own crop."""
        if self.crop is None:
            return self.data.inputs(samples)
        rngs = [seeded_rng(self.seed, "calibration/crop", int(sample)) for sample in samples]
        return self.crop.views(self.data, samples, rngs)

    def corrupted(self, images: NDArray[Any], treatment: Treatment, samples: NDArray[np.int64]) -> NDArray[Any]:
        """Return images after every corruption of a treatment, each sample with its own random numbers."""
        for name, level in treatment:
            rngs = [seeded_rng(self.seed, f"calibration/{name}", int(sample)) for sample in samples]
            images = CORRUPTIONS[name].batch(images, level / 4, rngs, **self.known)
        return images

    def _right(self, images: NDArray[Any], samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        if self.settings.storage_jpeg_quality is not None:
            images = store_as_jpeg(images, self.settings.storage_jpeg_quality)
        logits = self.model(as_inputs(torch.from_numpy(images).to(self.model.device)).to(self.model.dtype))
        predicted: NDArray[np.int64] = logits.argmax(dim=1).cpu().numpy()
        right: NDArray[np.bool_] = predicted == self.data.labels[samples]
        return right

    def _key(self) -> str:
        """Return the name of the cache folder: a digest of everything that the outcomes depend on."""
        content = {
            "version": VERSION,
            "model": self.model_digest,
            "data": self.data_digest,
            "corruptions": CORRUPTION_VERSION,
            "family": self.settings.family,
            "storage_jpeg_quality": self.settings.storage_jpeg_quality,
            "pictures": self.seed,
            **({"crop": self.crop.spec()} if self.crop else {}),
            **({} if self.model.device.type == "cpu" else {"device": self.model.device.type}),
        }
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()

    def _recall(self, treatment: Treatment) -> None:
        """Read the stored outcomes of this treatment, as far as they make whole rounds."""
        self._outcomes.setdefault(treatment, np.empty(0, np.bool_))
        file = _file_of(treatment)
        if file in self._read:
            return
        self._read.add(file)
        for levels, outcomes in self.store.read(file).items():
            total = len(self.samples)
            known = total if len(outcomes) >= total else len(outcomes) // ROUND * ROUND
            stored = _treatment_of([name for name, _ in treatment], levels)
            if known > len(self._outcomes.get(stored, ())):
                self._outcomes[stored] = outcomes[:known]

    def _keep(self, treatments: Iterable[Treatment]) -> None:
        for file in {_file_of(treatment) for treatment in treatments}:
            known = {
                "-".join(str(level) for _, level in treatment) or "0": outcomes
                for treatment, outcomes in self._outcomes.items()
                if _file_of(treatment) == file and len(outcomes)
            }
            if known:
                self.store.write(file, known)


def spread_over_classes(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random order of the samples in which every beginning has the class proportions of the whole.

    Under strong corruption a model predicts few classes, so that accuracies differ most between classes.

    >>> order = spread_over_classes(np.array([0, 0, 0, 0, 1, 1]), np.random.default_rng(0))
    >>> sorted((order[:3] // 4).tolist())  # twice the first class, once the second
    [0, 0, 1]
    """
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    _, sizes = np.unique(labels, return_counts=True)
    ranks = np.concatenate([np.arange(size) for size in sizes])  # within the class
    return by_class[np.argsort((ranks + rng.random(len(labels))) / np.repeat(sizes, sizes))]


def _tell_nobody(_progress: CalibrationProgress) -> None:
    pass


def _file_of(treatment: Treatment) -> str:
    return "+".join(name for name, _ in treatment) or "clean"


def _treatment_of(names: Sequence[str], levels: str) -> Treatment:
    return tuple(zip(names, map(int, levels.split("-")), strict=False))  # clean has a level but no name
