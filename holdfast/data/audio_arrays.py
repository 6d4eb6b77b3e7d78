"""Audio data sets in memory, from arrays or from Parquet files as on Hugging Face."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import fit_length, read_audio
from holdfast.data.base import DATASETS, names_of_classes
from holdfast.data.on_disk import digest_of
from holdfast.decode.parquet import parquet_rows
from holdfast.records import InputSpec


class InMemoryAudio:
    """Mono clips of one length that fit in memory, (n, samples) float32 in [-1, 1], with their labels.

    Args:
        waveforms: clips of one length, (n, samples) float32 in [-1, 1].
        labels: index of the class of each clip.
        sample_rate: of the clips, in Hz.
        name: under which reports show the data.
        class_names: names of the classes in order; empty: their indices.

    >>> data = InMemoryAudio(np.ones((2, 8_000), np.float32), np.array([0, 1]), sample_rate=8_000)
    >>> data.input_spec
    InputSpec(kind='audio', shape=(8000,), sample_rate=8000)
    """

    def __init__(
        self,
        waveforms: NDArray[np.float32],
        labels: NDArray[np.int64],
        *,
        sample_rate: int,
        name: str = "sounds",
        class_names: Sequence[str] = (),
    ) -> None:
        if waveforms.ndim != 2 or not waveforms.shape[1] or waveforms.dtype != np.float32:
            raise ValueError(
                f"waveforms have shape {waveforms.shape} and type {waveforms.dtype}; pass float32 (n, samples), mono"
            )
        if len(waveforms) != len(labels):
            raise ValueError(f"{len(waveforms)} waveforms but {len(labels)} labels; pass one label for each clip")
        if not np.isfinite(waveforms.sum(1)).all():
            row = int(np.argmin(np.isfinite(waveforms.sum(1))))
            raise ValueError(f"clip {row} of {name} contains NaN or infinite values; remove it")
        if sample_rate < 1:
            raise ValueError(f"sample_rate must be at least 1 Hz, got {sample_rate}; pass e.g. 16000")
        self.name = name
        self.waveforms = waveforms
        self.labels = np.asarray(labels, np.int64)
        self.class_names: Sequence[str] = names_of_classes(name, self.labels, class_names)
        self.input_spec = InputSpec("audio", (waveforms.shape[1],), sample_rate)

    @property
    def digest(self) -> str:
        """Hex digest of rate, waveforms and labels."""
        stated = repr((self.waveforms.shape, self.input_spec.sample_rate)).encode()
        return digest_of([stated, self.waveforms.tobytes(), self.labels.tobytes()])

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the clips at these indices."""
        return self.waveforms[indices]


@DATASETS.register("audio_parquet", alias="sound_parquet")
class AudioParquet(InMemoryAudio):
    """Audio of a Parquet file with a column `audio` of file contents and a column of labels, as on Hugging Face.

    Clips become mono at `sample_rate` and `seconds` long, by default as long as the longest; shorter ones are centred
    in silence. `only` keeps the rows whose columns have one of the given values, such as `{"fold": [5]}`. Needs the
    extra `parquet`; FLAC and resampling also need the extra `audio`.

    Args:
        file: the Parquet file.
        sample_rate: to which clips are resampled, in Hz.
        seconds: length of every clip; None: that of the longest.
        label_column: name of the column with labels.
        only: values of columns that rows must have, such as `{"fold": [5]}`; None: all rows.
        class_names: names of the labels in order; empty: the labels themselves.
    """

    citation = "Lhoest et al., EMNLP 2021"

    def __init__(
        self,
        *,
        file: str | Path,
        sample_rate: int = 16_000,
        seconds: float | None = None,
        label_column: str = "label",
        only: Mapping[str, Collection[Any]] | None = None,
        class_names: Sequence[str] = (),
    ) -> None:
        path = Path(file).expanduser()
        if not path.is_file():
            raise ValueError(f"there is no file {path}; pass a Parquet file with audio")
        wanted = dict(only or {})
        clips, labels = [], []
        for row, (stored, label, *values) in enumerate(parquet_rows(path, "audio", label_column, *wanted)):
            if all(value in kept for value, kept in zip(values, wanted.values(), strict=True)):
                clips.append(read_audio(io.BytesIO(stored["bytes"]), sample_rate, name=f"row {row} of {path}"))
                labels.append(int(label))
        if not clips:
            raise ValueError(f"no row of {path} matches {wanted}; pass values that occur in its columns")
        samples = max(map(len, clips)) if seconds is None else round(seconds * sample_rate)
        super().__init__(
            np.stack([fit_length(clip, samples) for clip in clips]),
            np.array(labels, np.int64),
            sample_rate=sample_rate,
            name="sound_parquet",  # the digest identifies the file; its path is not part of the protocol
            class_names=class_names,
        )
