"""Noise corpora in their published layouts, or any folder or Parquet file of recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.audio import FileRecording, StoredRecording
from holdfast.audio.decoding import SUFFIXES
from holdfast.decode.parquet import parquet_rows


def recordings_in(folder: str | Path) -> list[FileRecording]:
    """Return all recordings below a folder, sorted, each labelled with the name of its folder.

    A Parquet file needs the columns `audio`, with file contents, and `category`, which is the label.
    """
    path = Path(folder).expanduser()
    if path.suffix == ".parquet" and path.is_file():
        rows = enumerate(parquet_rows(path, "audio", "category"))
        named = ((Path(label, audio["path"] or f"row {row}"), label, audio["bytes"]) for row, (audio, label) in rows)
        return [StoredRecording(*recording) for recording in named]
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}; pass a folder with recordings")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise ValueError(f"no recordings in {path}; looked for {', '.join(sorted(SUFFIXES))}")
    return [FileRecording(file, file.parent.name) for file in files]


def qut_noise(folder: str | Path, types: Sequence[str]) -> list[FileRecording]:
    """Return the recordings of QUT-NOISE of these types, files `<TYPE>-<PLACE>-<n>.wav` (Dean et al., 2010)."""
    return _of(folder, types, lambda file: file.name.split("-")[0], "download QUT-NOISE from its SAIVT page")


def demand(folder: str | Path, environments: Sequence[str]) -> list[FileRecording]:
    """Return the channels of DEMAND in these environments as recordings, `<ENVIRONMENT>/ch01.wav` to `ch16.wav`.

    Thiemann et al., 2013.
    """
    return _of(folder, environments, lambda file: file.parent.name, "download <environment>_16k.zip, Zenodo 1227121")


def speech_commands_background(folder: str | Path, names: Sequence[str]) -> list[FileRecording]:
    """Return these recordings of `_background_noise_` in Speech Commands (Warden, arXiv 1804.03209)."""
    path = Path(folder).expanduser()
    # Only this folder is searched: the others hold 100 000 files.
    depths = (sorted(path.glob(f"{above}_background_noise_")) for above in ("", "*/", "*/*/"))
    inner = next((folders[0] for folders in depths if folders), path)
    return _of(inner, names, lambda file: file.stem, "download speech_commands_v0.02.tar.gz")


def labelled_recordings(folder: str | Path, labels: Sequence[str]) -> list[FileRecording]:
    """Return the recordings of a folder or a Parquet file that have one of these labels."""
    recordings = recordings_in(folder)
    known = sorted({recording.label for recording in recordings})
    return _chosen(recordings, folder, labels, f"choose from {', '.join(known)}")


def _of(folder: str | Path, labels: Sequence[str], label_of: Callable[[Path], str], remedy: str) -> list[FileRecording]:
    recordings = [FileRecording(recording.path, label_of(recording.path)) for recording in recordings_in(folder)]
    return _chosen(recordings, folder, labels, remedy)


def _chosen(
    recordings: list[FileRecording], folder: str | Path, labels: Sequence[str], remedy: str
) -> list[FileRecording]:
    missing = set(labels) - {recording.label for recording in recordings}
    if missing:
        raise ValueError(f"no {', '.join(sorted(missing))} in {folder}; {remedy}")
    return [recording for recording in recordings if recording.label in labels]
