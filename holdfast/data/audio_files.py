"""Audio files that are read on demand: listed by a data set, or sorted into one folder per class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import CLIPS, Waveform, fit_length, read_audio
from holdfast.audio.decoding import SUFFIXES
from holdfast.data.base import DATASETS, names_of_classes
from holdfast.data.on_disk import digest_of, folder_at, pieces_of
from holdfast.records import InputSpec

DIGEST_BYTES = 8192  # of each file


class ListedAudio:
    """Labelled audio files below a folder; every clip becomes mono, with one sample rate and one length."""

    may_be_silent = False

    def __init__(
        self,
        folder: Path,
        rows: Sequence[tuple[str, int]],  # file and label
        *,
        name: str,
        sample_rate: int,
        samples: int,
        class_names: Sequence[str] = (),
    ) -> None:
        if not rows:
            raise ValueError(f"{name} lists no audio files in {folder}; unpack it again")
        if sample_rate < 1 or samples < 1:
            raise ValueError(f"samples and sample_rate must be at least 1, got {samples} and {sample_rate}")
        self.folder = folder
        self.files = tuple(file for file, _ in rows)  # relative to the folder
        self.labels = np.array([label for _, label in rows], np.int64)
        self.name = name
        self.class_names: Sequence[str] = names_of_classes(name, self.labels, class_names)
        self.input_spec = InputSpec("audio", (samples,), sample_rate)
        self.clip(0)  # report a wrong folder now, not in the middle of a run

    @cached_property
    def digest(self) -> str:
        """Hex digest of rate, length and labels, and of the name, size and middle 8192 bytes of every file."""
        stated = repr((self.input_spec, tuple(self.class_names))).encode()
        pieces = pieces_of(self.folder, self.files, DIGEST_BYTES, middle=True)
        return digest_of(chain([stated, self.labels.tobytes()], pieces))

    def clip(self, index: int) -> Waveform:
        """Return one clip at its full length, which a change of tempo needs."""
        path = self.folder / self.files[index]
        if not path.is_file():
            raise ValueError(f"{path} is missing; unpack {self.name} again")
        return read_audio(path, self.input_spec.sample_rate, may_be_silent=self.may_be_silent)

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the clips at these indices, (n, samples): centred in silence, or the beginning of longer ones."""
        (samples,) = self.input_spec.shape
        clips = np.empty((len(indices), samples), np.float32)
        for row, index in enumerate(indices):
            clips[row] = fit_length(self.clip(int(index)), samples)
        return clips


class PublishedAudio(ListedAudio):
    """A data set of DHAuDS with its published rate and length; silent clips stay, because the lists are fixed."""

    may_be_silent = True

    def __init__(
        self,
        dataset: str,
        split: str,
        folder: Path,
        rows: Sequence[tuple[str, int]],
        *,
        class_names: Sequence[str],
        sample_rate: int | None = None,
    ) -> None:
        own_rate, samples = CLIPS[dataset]
        rate = sample_rate or own_rate
        super().__init__(
            folder,
            rows,
            name=f"{dataset}/{split}",
            sample_rate=rate,
            samples=samples * rate // own_rate,
            class_names=class_names,
        )


@DATASETS.register("audio_folder", alias="sound_folder")
class AudioFolder(ListedAudio):
    """Audio files in one folder per class, sorted by folder name: WAV, FLAC or Ogg."""

    citation = "Warden, arXiv 1804.03209"

    def __init__(self, *, folder: str | Path, sample_rate: int = 16_000, seconds: float = 1.0) -> None:
        path = folder_at(folder, "pass a folder that holds one folder of audio files per class")
        names = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and entry.name[0] not in "._")
        rows = [(file, label) for label, name in enumerate(names) for file in audio_files_in(path, name)]
        if not rows:
            raise ValueError(f"{path} has no class folders with audio files; make one folder per class")
        super().__init__(
            path,
            rows,
            name="sound_folder",  # the digest identifies the folder
            sample_rate=sample_rate,
            samples=round(seconds * sample_rate),
            class_names=names,
        )


def audio_files_in(folder: Path, class_name: str) -> list[str]:
    """Return the audio files of one class, subfolders included, in an order that does not depend on the machine."""
    paths = (path for path in (folder / class_name).rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name[0] != ".")


def folder_with(folder: str | Path, entry: str, remedy: str) -> Path:
    """Return the folder that contains an entry: the given one, or one up to two levels below, as archives unpack."""
    path = folder_at(folder, remedy)
    for depth in ("", "*/", "*/*/"):
        entries = sorted(path.glob(f"{depth}{entry}"))
        if entries:
            return entries[0].parents[len(Path(entry).parts) - 1]
    raise ValueError(f"there is no {entry} in {path}; {remedy}")
