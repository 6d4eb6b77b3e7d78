"""The released corrupted sets of DHAuDS, US8-C, SC2-C, VS-C and RS-C, with all criteria."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import CLIPS, fit_length, read_audio
from holdfast.data import urbansound, vocalsound
from holdfast.data.audio_files import folder_with
from holdfast.data.base import DATASETS, Dataset
from holdfast.data.on_disk import digest_of
from holdfast.data.reefset import ReefSet
from holdfast.data.speech_commands import CLASS_NAMES as WORDS
from holdfast.data.speech_commands import SpeechCommands
from holdfast.data.stored import check_stored, clean_of
from holdfast.records import InputSpec

DIGEST_EVERY = 97  # clips
LEVELS = ("L1", "L2")
REMEDY = "download it from the Google Drive folder that https://github.com/Andy-Shao/DHAuDS links to, and unpack it"

Rows = Sequence[tuple[str, int]]  # file and label


class _StoredAudio:
    """A released set: `<family>/<level>/<file>` below a folder, as WAV or FLAC; criteria such as "WHN-L1" are domains.

    Each criterion has one severity only, so that of the stream is ignored. The domain `clean`, and the second draw that
    offline protocols adapt to, need `clean`, the folder of the original data set. The digest covers the labels and
    every 97th clip of each criterion.
    """

    citation = "Shao et al., arXiv 2511.18421"

    def __init__(
        self,
        dataset: str,
        audio: Path,
        rows: Rows,
        class_names: Sequence[str],
        original: Callable[..., Dataset],
        clean: str | Path | None,
        **rate_of: int,
    ) -> None:
        own_rate, samples = CLIPS[dataset]
        rate = rate_of.get("sample_rate", own_rate)
        self.name = f"{dataset}_c"
        self.audio = audio
        self.files = [file for file, _ in rows]
        self.labels = np.array([label for _, label in rows], np.int64)
        self.class_names: Sequence[str] = tuple(class_names)
        self.input_spec = InputSpec("audio", (samples * rate // own_rate,), rate)
        self._folders = {
            f"{part.parent.name}-{part.name}": part for level in LEVELS for part in sorted(audio.glob(f"*/{level}"))
        }
        if not self._folders or not rows:
            raise ValueError(f"{audio} holds no <family>/L1 or <family>/L2 folders of listed clips; {REMEDY}")
        self.stored: Sequence[str] = tuple(sorted(self._folders))
        self.clean: Dataset | None = None if clean is None else original(folder=clean, **rate_of)

    @cached_property
    def digest(self) -> str:
        """Hex digest of the labels and of every 97th clip of each criterion."""
        clips = (
            f"\n{name} {file}\n".encode() + self._file(name, file).read_bytes()
            for name in self.stored
            for file in self.files[::DIGEST_EVERY]
        )
        return digest_of(chain([repr((self.input_spec, self.files)).encode(), self.labels.tobytes()], clips))

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the clean clips at these indices."""
        return clean_of(self.name, self.clean, self.labels).inputs(indices)

    def corrupted(self, indices: NDArray[np.int64], corruption: str, severity: float) -> NDArray[np.float32]:
        """Return the stored clips at these indices; longer ones, of TST, are cut as in the official code."""
        check_stored(self.name, corruption, self.stored)
        (samples,) = self.input_spec.shape
        clips = np.empty((len(indices), samples), np.float32)
        for row, index in enumerate(indices):
            path = self._file(corruption, self.files[index])
            clips[row] = fit_length(read_audio(path, self.input_spec.sample_rate, may_be_silent=True), samples)
        return clips

    def _file(self, criterion: str, file: str) -> Path:
        path = self._folders[criterion] / file
        for candidate in (path, path.with_suffix(".flac")):
            if candidate.is_file():
                return candidate
        raise ValueError(f"{path} is missing, which the list of {self.name} names; {REMEDY}")


@DATASETS.register("stored_speech_commands_c", alias="sc2_c")
class StoredSpeechCommandsC(_StoredAudio):
    """SC2-C as released: `<family>/<level>/<word>/<file>.wav` and `testing_list.txt`; 11 005 clips per criterion."""

    def __init__(self, *, folder: str | Path, clean: str | Path | None = None) -> None:
        root = folder_with(folder, "testing_list.txt", REMEDY)
        rows = [(file, WORDS.index(file.split("/")[0])) for file in (root / "testing_list.txt").read_text().split()]
        super().__init__("sc2", root, rows, WORDS, SpeechCommands, clean)


@DATASETS.register("stored_vocalsound_c", alias="vs_c")
class StoredVocalSoundC(_StoredAudio):
    """VS-C as released: `audio_16k/<family>/<level>/<file>` with VocalSound's lists; 3591 clips for each criterion."""

    def __init__(self, *, folder: str | Path, clean: str | Path | None = None) -> None:
        root = folder_with(folder, vocalsound.CLASSES, REMEDY)
        rows, names = vocalsound.listed_in(root, "test")
        super().__init__("vs", root / "audio_16k", rows, names, vocalsound.VocalSound, clean)


@DATASETS.register("stored_urbansound8k_c", alias="us8_c")
class StoredUrbanSoundC(_StoredAudio):
    """US8-C as released: `audio/<family>/<level>/fold8…10/<file>` and its metadata; 2459 clips per criterion."""

    def __init__(self, *, folder: str | Path, clean: str | Path | None = None, sample_rate: int = 44_100) -> None:
        root = folder_with(folder, urbansound.INDEX, REMEDY)
        rows, names = urbansound.listed_in(root / urbansound.INDEX, "test"), urbansound.CLASS_NAMES
        super().__init__("us8", root / "audio", rows, names, urbansound.UrbanSound8K, clean, sample_rate=sample_rate)


@DATASETS.register("stored_reefset_c", alias="rs_c")
class StoredReefSetC(_StoredAudio):
    """RS-C as released: `<family>/<level>/<file>` and `test_annotations.csv`; 17 137 clips for each criterion."""

    def __init__(self, *, folder: str | Path, clean: str | Path | None = None) -> None:
        root = folder_with(folder, "test_annotations.csv", REMEDY)
        with (root / "test_annotations.csv").open(newline="") as file:
            listed = [(row["file_name"], row["label"]) for row in csv.DictReader(file)]
        names = sorted({label for _, label in listed})
        rows = [(file, names.index(label)) for file, label in listed]
        super().__init__("rs", root, rows, names, ReefSet, clean)
