"""The criteria of DHAuDS as corruptions, so that any audio stream can use them as domains.

A criterion has no severity: at every severity above 0 its quantity is drawn anew for every clip. The fourteen criteria
are registered under their published names, with embedded noise and tempo changes in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import Recording, Waveform, fit_length, short_name
from holdfast.corruptions.audio.base import DHAUDS, AudioCorruption
from holdfast.corruptions.audio.corpora import labelled_recordings
from holdfast.corruptions.audio.dhauds import NOISES, Copy, Criterion, criteria, criterion, noises_of
from holdfast.corruptions.audio.noise import description_of
from holdfast.corruptions.base import CORRUPTIONS, Corruption, Rng
from holdfast.registry import nearest

# A folder, or one per family, or `recordings` with the labels of each family at each level.
Noise: TypeAlias = str | Path | Mapping[str, str | Path | Mapping[str, Sequence[str]]] | None

BOTH_WAYS = "vs"  # has all fourteen criteria, and tempo changes in both directions
WORDS = {
    "WHN": "white noise, normal or uniform",
    "ENQ": "noise as in QUT-NOISE",
    "END1": "noise as in the first half of DEMAND",
    "END2": "noise as in the second half of DEMAND",
    "ENSC": "background noise as in Speech Commands",
    "TST": "another tempo",
    "PSH": "another pitch",
}


@dataclass(frozen=True, eq=False)
class CriterionCorruption(AudioCorruption):
    """A criterion for clips of any rate and length.

    >>> clips = np.ones((1, 8_000), np.float32)
    >>> CORRUPTIONS["TST-L1"].batch(clips, 1, [np.random.default_rng(0)]).shape
    (1, 8000)
    """

    made: Callable[[int, int], Criterion] = field(kw_only=True)  # (sample rate, length) -> criterion
    rebuild: tuple[Any, ...] = field(kw_only=True)  # arguments of `criterion_corruption`, the criterion's name first

    @property
    def summary(self) -> str:
        """One line for the catalogue."""
        family, level = self.rebuild[0].split("-")
        noise = f" With {self.source}." if self.source else ""
        return f"Give every clip {WORDS[family]}, drawn from the grid of DHAuDS {level}.{noise}"

    def _corrupted(
        self,
        samples: NDArray[Any],
        severity: float,
        rngs: Iterable[Rng],
        quantities: Sequence[float],
        **known: Any,
    ) -> NDArray[Any]:
        """Apply the criterion, which draws the quantity of every clip from its grid and ignores the severity."""
        if severity == 0:
            return np.array(samples)
        made = self.made(known["sample_rate"], samples.shape[1])
        corrupted = np.empty_like(samples)
        for row, (clip, rng) in enumerate(zip(samples, rngs, strict=True)):
            clip = without_padding(clip) if made.changes_length else clip
            corrupted[row] = fit_length(made(clip, _generator(rng)), samples.shape[1])
        return corrupted

    def __reduce__(self) -> tuple[Callable[..., Corruption], tuple[Any, ...]]:
        return super().__reduce__() if self.name in CORRUPTIONS else (criterion_corruption, self.rebuild)


def _generator(rng: Rng) -> np.random.Generator:
    """Return a `Generator`, seeded from a `RandomState` if that is given."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng.randint(2**31))


def without_padding(clip: Waveform) -> Waveform:
    """Return a clip without the silence that centring has added, the same amount on both sides.

    >>> without_padding(np.array([0, 0, 1, 0, 2, 0, 0, 0], np.float32)).tolist()
    [1.0, 0.0, 2.0]
    """
    nonzero = np.flatnonzero(clip)
    if not len(nonzero):
        return clip
    before, after = int(nonzero[0]), len(clip) - 1 - int(nonzero[-1])
    # An odd sample is on the right; silence of the clip itself at one end stays, so that centring restores the clip.
    left = min(before, after)
    return clip[left : len(clip) - min(after, left + 1)]


def criterion_corruption(
    name: str, dataset: str = BOTH_WAYS, noise: Noise = None, compat: bool = False, copy: Copy = "evaluation"
) -> CriterionCorruption:
    """Return a criterion of a data set of DHAuDS as a corruption of clips of any rate and length.

    `noise` is the folder of its corpus, or a folder per family (embedded noise for the others), or labelled recordings:
    `{recordings: folder or Parquet file, ENQ: {L1: [rain], L2: [rain, wind]}}`. The other arguments are those of
    `holdfast.corruptions.audio.dhauds.criterion`.
    """
    dataset = short_name(dataset)
    if name not in criteria(dataset):
        raise ValueError(f"{dataset} has no criterion {name!r}; choose one of {', '.join(criteria(dataset))}")
    family, level = name.split("-")
    given = _noise_for(family, noise) if isinstance(noise, Mapping) else noise
    recordings = _recordings(given, family, level) if family in NOISES else None
    noises = "" if recordings is None else "embedded noise" if given is None else description_of(recordings)
    return CriterionCorruption(
        f"dhauds/{dataset}/{name}",
        {"audio": (0, 1, 1, 1, 1, 1)},
        _unused,
        citation=DHAUDS,
        source=", ".join(filter(None, [noises, "the slips of the official code" if compat else ""])),
        made=lru_cache(partial(_made, name, dataset, recordings, compat, copy)),
        rebuild=(name, dataset, noise, compat, copy),
    )


def _noise_for(family: str, noise: Mapping[str, Any]) -> Any:
    """Return the folder of a family, or its recordings and their labels by level, or None."""
    known = ["recordings", *NOISES]
    for key in noise:
        if key not in known:
            raise ValueError(f"noise has no {key!r}; {nearest(key, known)}")
    if set(noise) == {"recordings"}:
        raise ValueError("noise has recordings but no labels; add the labels of a family: ENQ: {L1: [label, …], L2: …}")
    given = noise.get(family)
    if not isinstance(given, Mapping):
        return given
    if "recordings" not in noise:
        raise ValueError(f"noise has labels for {family} but no recordings; add recordings: folder")
    return noise["recordings"], given


def _recordings(given: Any, family: str, level: str) -> Sequence[Recording]:
    if not isinstance(given, tuple):
        return noises_of(family, level, given)
    folder, labels = given
    if not labels.get(level):
        raise ValueError(f"noise has no labels for {family} at {level}; add {level}: [label, …]")
    return labelled_recordings(folder, labels[level])


def _made(
    name: str,
    dataset: str,
    recordings: Sequence[Any] | None,
    compat: bool,
    copy: Copy,
    sample_rate: int,
    samples: int,
) -> Criterion:
    return criterion(
        name, dataset, noise=recordings, sample_rate=sample_rate, samples=samples, copy=copy, compat=compat
    )


def _unused(waveforms: NDArray[Any], *_quantities: float) -> NDArray[Any]:
    """Never called: a criterion overrides `_corrupted`."""
    return waveforms


for _name in criteria(BOTH_WAYS):
    CORRUPTIONS.register(_name)(replace(criterion_corruption(_name), name=_name))
