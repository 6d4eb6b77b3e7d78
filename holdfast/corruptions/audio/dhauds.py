"""The fifty criteria of DHAuDS: corruption, grid of quantities and clip length of each.

Shao et al., arXiv 2511.18421. A criterion draws its quantity anew for every clip. By default it follows the paper;
with `compat=True` it follows the official code, errors included. The random draws are ours in both cases: each clip has
its own generator, so that any clip can be made alone and by any number of workers, whereas the official sets depend on
the number of workers. Levels are not ordered: the noise of L2 is on average weaker than that of L1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from holdfast.audio import CLIPS, FULL_NAMES, FileRecording, Recording, Waveform, fit_length, short_name, store_as_pcm16
from holdfast.corruptions.audio.corpora import demand, qut_noise, speech_commands_background
from holdfast.corruptions.audio.environments import environments
from holdfast.corruptions.audio.noise import cut_noise, draw_white, mix
from holdfast.corruptions.audio.tempo import shift_pitch, stretch, stretch_compat
from holdfast.corruptions.draws import integers
from holdfast.randomness import seeded_rng

Copy: TypeAlias = Literal["adaptation", "evaluation"]
Change: TypeAlias = Callable[[Waveform, float, np.random.Generator], Waveform]

FAMILIES = ("WHN", "ENQ", "END1", "END2", "ENSC", "TST", "PSH")
SEEDS: dict[Copy, int] = {"adaptation": 2025, "evaluation": 123456}

SNR_DB = {  # in steps of half a decibel
    "WHN-L1": (6, 6.5, 7),
    "WHN-L2": (5, 5.5, 6, 6.5, 7),
    "L1": (5, 5.5, 6),
    "L2": (5, 5.5, 6, 6.5, 7),
}
TEMPO_PERCENT = {
    "L1": (4, 5, 6),
    "L2": (8, 9, 10, 11, 12),
}  # the official code truncates a float and never draws the last value
SEMITONES = {"L1": (4, 5), "L2": (5, 6, 7)}

NOISES = {  # the first tuple only at L2
    "ENQ": (("CAFE", "CAR"), ("HOME", "REVERB", "STREET")),
    "END1": (("DKITCHEN", "STRAFFIC"), ("NFIELD", "PRESTO", "TCAR", "OOFFICE")),
    "END2": (("NRIVER", "PSTATION"), ("DLIVING", "OHALLWAY", "SPSQUARE", "TMETRO")),
    "ENSC": (("doing_the_dishes", "dude_miaowing"), ("exercise_bike", "running_tap", "white_noise", "pink_noise")),
}
CORPORA: dict[str, Callable[[str | Path, Sequence[str]], list[FileRecording]]] = {
    "ENQ": qut_noise,
    "END1": demand,
    "END2": demand,
    "ENSC": speech_commands_background,
}


@dataclass(frozen=True)
class Criterion:
    """One test condition of one data set: it turns clips of any length into corrupted clips of the set's length.

    >>> tempo = criterion("TST-L1", "sc2")
    >>> tempo.grid, tempo(np.ones(12_000, np.float32), tempo.rng("evaluation", 0)).shape
    ((0.04, 0.05, 0.06), (16000,))
    """

    name: str
    dataset: str
    grid: tuple[float, ...]  # SNR in dB, relative change of tempo, or semitones; drawn uniformly
    change: Change  # (clip, quantity, rng) -> clip
    sample_rate: int
    samples: int
    changes_length: bool = False
    stored: bool = False  # as a 16-bit file

    def rng(self, copy: Copy, index: int) -> np.random.Generator:
        """Return the generator of one clip, from the published seed of the adaptation or evaluation copy."""
        return seeded_rng(SEEDS[copy], f"dhauds/{self.dataset}/{self.name}", index)

    def __call__(self, clip: Waveform, rng: np.random.Generator) -> Waveform:
        """Return the corrupted clip; its length is fitted first, or last if the corruption changes it."""
        quantity = self.grid[int(integers(rng, 0, len(self.grid)))]
        if self.changes_length:
            changed = fit_length(self.change(clip, quantity, rng), self.samples)
        else:
            changed = self.change(fit_length(clip, self.samples), quantity, rng)
        return store_as_pcm16(changed) if self.stored else changed


def criteria(dataset: str) -> list[str]:
    """Return the names of a data set's criteria; "us8" has environmental classes and therefore no ENQ and END.

    >>> [len(criteria(dataset)) for dataset in CLIPS]
    [8, 14, 14, 14]
    """
    families = ("WHN", "ENSC", "TST", "PSH") if _known(dataset) == "us8" else FAMILIES
    return [f"{family}-{level}" for family in families for level in ("L1", "L2")]


def criterion(
    name: str,
    dataset: str,
    *,
    noise: str | Path | Sequence[Recording] | None = None,
    sample_rate: int | None = None,
    samples: int | None = None,
    copy: Copy = "adaptation",
    compat: bool = False,
) -> Criterion:
    """Return a criterion of a data set; `noise` is the folder of its corpus, or recordings, or embedded noise.

    Another sample rate keeps the duration (HuBERT takes "us8" at 16 kHz), unless `samples` is given. `copy` matters
    only with `compat`: official evaluation clips are 16-bit, and time-stretched clips of "rs" and "us8" are stored at
    the length of the slowest tempo of their level; all networks except CoNMix++ then use their beginning.
    """
    if name not in criteria(dataset):
        raise ValueError(f"{dataset} has no criterion {name!r}; choose one of {', '.join(criteria(dataset))}")
    family, level = name.split("-")
    dataset = short_name(dataset)
    own_rate, own_samples = CLIPS[dataset]
    rate = sample_rate or own_rate
    samples = samples or own_samples * rate // own_rate
    stored = compat and copy == "evaluation"
    if stored and family == "TST" and dataset in ("rs", "us8"):
        samples = samples * (100 + TEMPO_PERCENT[level][-1]) // 100
    return Criterion(
        name,
        dataset,
        _grid(family, level, faster_only=dataset == "sc2", compat=compat),
        _change(family, level, noise, rate, compat),
        rate,
        samples,
        changes_length=family == "TST",
        stored=stored,
    )


def noises_of(family: str, level: str, folder: str | Path | None = None) -> list[Recording]:
    """Return the recordings of a family at a level, from its corpus in a folder or embedded.

    >>> [recording.name for recording in noises_of("ENQ", "L1")]
    ['enq/HOME', 'enq/REVERB', 'enq/STREET']
    """
    extra, common = NOISES[family]
    labels = (*extra, *common) if level == "L2" else common
    if folder is None:
        return [*environments(family.lower(), labels)]
    return [*CORPORA[family](folder, labels)]


def _known(dataset: str) -> str:
    if short_name(dataset) not in CLIPS:
        raise ValueError(f"DHAuDS has no data set {dataset!r}; choose one of {', '.join(FULL_NAMES.values())}")
    return short_name(dataset)


def _grid(family: str, level: str, *, faster_only: bool, compat: bool) -> tuple[float, ...]:
    if family == "TST":
        percents = TEMPO_PERCENT[level][: -1 if compat else None]
        faster = tuple(percent / 100 for percent in percents)
        return faster if faster_only else (*faster, *(-share for share in faster))
    if family == "PSH":
        return (*SEMITONES[level], *(-semitones for semitones in SEMITONES[level]))
    return SNR_DB.get(f"{family}-{level}", SNR_DB[level])


def _change(
    family: str, level: str, noise: str | Path | Sequence[Recording] | None, sample_rate: int, compat: bool
) -> Change:
    if family == "TST":
        return lambda clip, share, rng: stretch_compat(clip, 1 + share, rng) if compat else stretch(clip, 1 + share)
    if family == "PSH":
        return _shifted
    if family == "WHN":
        return lambda clip, snr_db, rng: mix(clip, draw_white(rng, len(clip), compat=compat), snr_db)
    recordings = noises_of(family, level, noise) if noise is None or isinstance(noise, str | Path) else list(noise)
    return partial(_with_noise, recordings=recordings, sample_rate=sample_rate)


def _shifted(clip: Waveform, semitones: float, _rng: np.random.Generator) -> Waveform:
    return shift_pitch(clip, semitones)


def _with_noise(
    clip: Waveform, snr_db: float, rng: np.random.Generator, *, recordings: Sequence[Recording], sample_rate: int
) -> Waveform:
    return mix(clip, cut_noise(recordings, rng, len(clip), sample_rate), snr_db)
