"""Which pictures a frozen model still answers rightly after corruption; nothing is judged twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from holdfast.calibration.store import Store
from holdfast.corruptions import CORRUPTION_VERSION, CORRUPTIONS, store_as_jpeg
from holdfast.data import Dataset
from holdfast.data.tensors import as_inputs
from holdfast.models import Classifier, weights_digest
from holdfast.randomness import seeded_rng
from holdfast.streams.walks.path import GridCell

__all__ = ["Chain", "Judge", "Progress", "chain_of", "spread_over_classes"]

VERSION = 1  # one more whenever the same key would give other outcomes than before
USUAL_CELLS = 60  # that a pair needs, only to tell how much is left
ROUND = 100  # pictures that are added, corrupted and answered together; always the same ones, so rounding is the same

Chain: TypeAlias = tuple[tuple[str, int], ...]  # corruptions at their levels, one after the other; () is clean


def chain_of(pair: tuple[str, str], cell: GridCell) -> Chain:
    """Return what happens to a picture in a cell; a cell on an axis is the same one for every pair that has it.

    >>> chain_of(("fog", "snow"), (0, 3)), chain_of(("fog", "snow"), (0, 0))
    ((('snow', 3),), ())
    """
    return tuple((name, level) for name, level in zip(pair, cell, strict=True) if level)


@dataclass(frozen=True)
class Progress:
    """How far a calibration has got, counted in answers of the model to corrupted pictures."""

    pair: str  # that is being calibrated; empty while the pool is
    done: int
    saved: int  # not asked for again: another pair or an earlier calibration has them already
    left: int  # as far as can be told


class Judge:
    """Answers of one frozen model to one set of pictures under any chain of corruptions, remembered and kept on disk.

    All chains get the same pictures with the same draws, so that they differ by signal and not by sampling, and any
    first pictures have the classes in the shares in which the data has them.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Dataset,
        *,
        pictures: int,
        seed: int,
        family: str | None,
        storage_jpeg_quality: int | None,
        cache: Path,
        tell: Callable[[Progress], None],
    ) -> None:
        example = as_inputs(data.inputs(np.zeros(1, np.int64)))
        self.model = model if isinstance(model, Classifier) else Classifier(model, example=example)
        self.data = data
        self.samples = spread_over_classes(data.labels, seeded_rng(seed, "calibration pictures"))[:pictures]
        self.seed = seed
        self.family = family
        rate = data.input_spec.sample_rate
        self.known: dict[str, Any] = {"family": family} if rate is None else {"sample_rate": rate}
        self.storage_jpeg_quality = storage_jpeg_quality
        self.model_digest, self.data_digest = weights_digest(self.model.module), data.digest
        self.store = Store(cache / self._key())
        self.tell = tell
        self.pair, self.pairs_left = "", 0  # for the progress only
        self.done = self.saved = 0
        self._outcomes: dict[Chain, NDArray[np.bool_]] = {}
        self._asked: dict[tuple[str, Chain], int] = {}
        self._read: set[str] = set()  # files

    @property
    def rounds(self) -> list[int]:
        """How many pictures there are after each round; the last number is all of them."""
        total = len(self.samples)
        return [min(count, total) for count in range(ROUND, total + ROUND, ROUND)]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels of the pictures, in their order."""
        return self.data.labels[self.samples]

    def percent(self, chain: Chain) -> float:
        """Return the accuracy under a chain, on all pictures."""
        return 100 * float(self.outcomes([chain], len(self.samples)).mean())

    def turn_to(self, pair: tuple[str, str]) -> None:
        """Say for which pair outcomes will be asked for next: what it is spared counts as saved."""
        self.pair = "+".join(pair)
        self.pairs_left -= 1

    def outcomes(self, chains: Sequence[Chain], count: int) -> NDArray[np.bool_]:
        """Return whether the first `count` pictures, one of `rounds`, are answered rightly, (chains, pictures)."""
        for chain in chains:
            self._recall(chain)
            there = min(count, len(self._outcomes[chain]))
            self.saved += max(0, there - self._asked.get((self.pair, chain), 0))
            self._asked[self.pair, chain] = count
        missing = {chain for chain in chains if len(self._outcomes[chain]) < count}
        left = sum(count - len(self._outcomes[chain]) for chain in missing)
        with _frozen(self.model):
            for start in range(0, count, ROUND):
                todo = [chain for chain in missing if len(self._outcomes[chain]) == start]
                for chain, right in self._judge(todo, self.samples[start : min(count, start + ROUND)]):
                    self._outcomes[chain] = np.concatenate([self._outcomes[chain], right])
                    self.done += len(right)
                    left -= len(right)
                    later = max(0, self.pairs_left) * USUAL_CELLS * len(self.samples)
                    self.tell(Progress(self.pair, self.done, self.saved, left + later))
        self._keep(missing)
        return np.stack([self._outcomes[chain][:count] for chain in chains])

    def _judge(self, chains: list[Chain], samples: NDArray[np.int64]) -> Iterator[tuple[Chain, NDArray[np.bool_]]]:
        """Yield every chain's outcomes; chains that begin alike go on from the same corrupted pictures."""
        clean = self.data.inputs(samples)
        for beginning, group in groupby(
            sorted(chains, key=lambda chain: (chain[:-1], chain)), lambda chain: chain[:-1]
        ):
            begun = self.corrupted(clean, beginning, samples)
            for chain in group:
                yield chain, self._right(self.corrupted(begun, chain[-1:], samples), samples)

    def corrupted(self, images: NDArray[Any], chain: Chain, samples: NDArray[np.int64]) -> NDArray[Any]:
        """Return images with every corruption of a chain applied, each sample with its own random numbers."""
        for name, level in chain:
            rngs = [seeded_rng(self.seed, f"calibration/{name}", int(sample)) for sample in samples]
            images = CORRUPTIONS[name].batch(images, level / 4, rngs, **self.known)
        return images

    def _right(self, images: NDArray[Any], samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        if self.storage_jpeg_quality is not None:
            images = store_as_jpeg(images, self.storage_jpeg_quality)
        logits = self.model(as_inputs(images).to(self.model.device, self.model.dtype))
        answers: NDArray[np.int64] = logits.argmax(dim=1).cpu().numpy()
        right: NDArray[np.bool_] = answers == self.data.labels[samples]
        return right

    def _key(self) -> str:
        """Return the name of the folder that may be shared: everything that the outcomes depend on."""
        content = {
            "version": VERSION,
            "model": self.model_digest,
            "data": self.data_digest,
            "corruptions": CORRUPTION_VERSION,
            "family": self.family,
            "storage_jpeg_quality": self.storage_jpeg_quality,
            "pictures": self.seed,
        }
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()

    def _recall(self, chain: Chain) -> None:
        """Take what the file of this chain holds, as far as it goes in whole rounds."""
        self._outcomes.setdefault(chain, np.empty(0, np.bool_))
        file = _file_of(chain)
        if file in self._read:
            return
        self._read.add(file)
        for levels, outcomes in self.store.read(file).items():
            total = len(self.samples)
            known = total if len(outcomes) >= total else len(outcomes) // ROUND * ROUND
            names = [name for name, _ in chain]
            self._outcomes[_chain_of(names, levels)] = outcomes[:known]

    def _keep(self, chains: Iterable[Chain]) -> None:
        for file in {_file_of(chain) for chain in chains}:
            same = {chain: known for chain, known in self._outcomes.items() if _file_of(chain) == file}
            self.store.write(file, {_levels_of(chain): known for chain, known in same.items() if len(known)})


def spread_over_classes(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random order of the samples in which every beginning has the classes in the shares of the whole.

    Strong corruptions make a model answer with few classes, so that accuracies differ between classes most of all.

    >>> order = spread_over_classes(np.array([0, 0, 0, 0, 1, 1]), np.random.default_rng(0))
    >>> sorted((order[:3] // 4).tolist())  # twice the first class, once the second
    [0, 0, 1]
    """
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    _, sizes = np.unique(labels, return_counts=True)
    ranks = np.concatenate([np.arange(size) for size in sizes])  # within the class
    return by_class[np.argsort((ranks + rng.random(len(labels))) / np.repeat(sizes, sizes))]


def _file_of(chain: Chain) -> str:
    return "+".join(name for name, _ in chain) or "clean"


def _levels_of(chain: Chain) -> str:
    return "-".join(str(level) for _, level in chain) or "0"


def _chain_of(names: Sequence[str], levels: str) -> Chain:
    return tuple(zip(names, map(int, levels.split("-")), strict=False))  # clean has a level and no name


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Answer as in deployment, without gradients, and leave every layer in the mode it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in modes.items():
            module.training = training
