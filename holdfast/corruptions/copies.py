"""Write corrupted copies of image and audio files, with a manifest."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from PIL import Image
from scipy.io import wavfile

from holdfast.audio import Waveform, as_pcm16, read_audio
from holdfast.audio.decoding import open_audio
from holdfast.corruptions.base import CORRUPTION_VERSION, CORRUPTIONS, Corruption, Rng
from holdfast.corruptions.listing import NAMES, files_in, kind_of, read_image
from holdfast.machine.extras import extra
from holdfast.machine.folders import write_whole
from holdfast.options.own_code import load_files, loaded_files
from holdfast.randomness import seeded_rng

AudioFormat: TypeAlias = Literal["flac", "wav"]

MANIFEST = "manifest.jsonl"


@dataclass(frozen=True)
class _Copy:
    source: Path
    relative: str  # to the given folder
    target: Path


@dataclass(frozen=True)
class _Outcome:
    copy: _Copy
    record: dict[str, str]
    problem: str = ""


def corrupt_files(
    paths: Iterable[str | Path],
    name: str | Corruption,
    severity: float,
    out: str | Path,
    seed: int = 0,
    family: str | None = None,
    *,
    sample_rate: int | None = None,
    audio_format: AudioFormat | None = None,
    workers: int = 1,
) -> list[Path]:
    """Write corrupted copies of files, and of all files in folders, with a manifest, into the folder `out`.

    Images become PNG; audio becomes mono, 16-bit WAV or FLAC. Subfolders are kept. The draws for a file depend only on
    the seed and its path within the folder, so any number of workers writes the same bytes. Copies that the manifest
    lists are not made again. Unreadable files are skipped, and named in an error once all others are written.

    Args:
        paths: files and folders.
        name: of a corruption, or one itself, such as a criterion of DHAuDS with your own noise
            (`criterion_corruption`).
        severity: from 0 (unchanged) to 5.
        out: folder to write to.
        seed: of the draws.
        family: severity tables; None: those that fit the size of the images.
        sample_rate: of the copies of audio, in Hz; None: each file's own.
        audio_format: of the copies; None: each file's own.
        workers: number of processes.
    """
    corruption, out = CORRUPTIONS[name] if isinstance(name, str) else name, Path(out)
    corruption.quantities(severity, family or next(iter(corruption.tables)))  # refuses an invalid severity or family
    copies = _copies(paths, out, corruption, audio_format)
    protocol = _protocol(corruption, severity, seed, family, sample_rate)
    kept = _kept(out, protocol)
    missing = [copy for copy in copies if not _is_done(copy, kept.get(_within(out, copy)))]
    known = corruption.name if isinstance(name, str) else corruption  # a name is cheaper to send to a process
    work = partial(copy_outcome, known, severity, seed, family, sample_rate)
    unreadable = []
    for outcome in _worked(work, missing, workers):
        if outcome.problem:
            file = str(outcome.copy.source)
            unreadable.append(outcome.problem if file in outcome.problem else f"{file} ({outcome.problem})")
            continue
        if not (out / MANIFEST).exists():
            _append(out, protocol)
        kept[_within(out, outcome.copy)] = {"file": _within(out, outcome.copy), **outcome.record}
        _append(out, kept[_within(out, outcome.copy)])
    written = [copy for copy in copies if _within(out, copy) in kept]
    if written:  # in the order of the files, also after interrupted runs
        lines = [protocol, *(kept.pop(_within(out, copy)) for copy in written), *kept.values()]
        write_whole(out / MANIFEST, "".join(json.dumps(line) + "\n" for line in lines).encode())
    if unreadable:
        raise ValueError(
            f"{len(unreadable)} of {len(copies)} files could not be read or corrupted; the others were written to "
            f"{out}: {'; '.join(unreadable)}"
        )
    return [copy.target for copy in written]


def _protocol(
    corruption: Corruption, severity: float, seed: int, family: str | None, sample_rate: int | None
) -> dict[str, Any]:
    return {
        "corruption": corruption.name,
        "severity": severity,
        "seed": seed,
        "family": family,
        "sample_rate": sample_rate,
        "noise": corruption.source,
        "corruption_version": CORRUPTION_VERSION,
    }


def _copies(
    paths: Iterable[str | Path], out: Path, corruption: Corruption, audio_format: AudioFormat | None
) -> list[_Copy]:
    """Return the copies to write; targets that would overwrite an input or each other are refused."""
    copies: dict[Path, _Copy] = {}
    for path in map(Path, paths):
        if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
            raise ValueError(f"the output folder {out} is inside the input folder {path}; choose one outside of it")
        for source in files_in(path, corruption.kind):
            if kind_of(source) not in (None, corruption.kind):
                choice = "white_noise" if kind_of(source) == "audio" else "gaussian_noise"
                raise ValueError(
                    f"{corruption.name} corrupts {NAMES[corruption.kind]} files, and {source} is not one; try {choice}"
                )
            relative = source.relative_to(path) if path.is_dir() else Path(source.name)
            target = out / relative.with_suffix(_suffix(source, corruption, audio_format))
            if target in copies:
                raise ValueError(
                    f"{copies[target].source} and {source} would both become {target}; run them one by one"
                )
            copies[target] = _Copy(source, relative.as_posix(), target)
    inputs = {copy.source.resolve() for copy in copies.values()}
    for target in copies:
        if target.resolve() in inputs:
            raise ValueError(f"{target} is itself an input and would be overwritten; choose another output folder")
    return list(copies.values())


def _suffix(source: Path, corruption: Corruption, audio_format: AudioFormat | None) -> str:
    if corruption.kind == "image":
        return ".png"
    return f".{audio_format or ('wav' if source.suffix.lower() == '.wav' else 'flac')}"


def _worked(work: partial[_Outcome], copies: Sequence[_Copy], workers: int) -> Iterator[_Outcome]:
    """Yield outcomes in the order of the copies."""
    if workers == 1 or len(copies) < 2:
        yield from map(work, copies)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), load_files, (loaded_files(),)) as pool:
        yield from pool.map(work, copies, chunksize=min(16, -(-len(copies) // workers)))


def copy_outcome(
    name: str | Corruption, severity: float, seed: int, family: str | None, sample_rate: int | None, copy: _Copy
) -> _Outcome:
    """Make one corrupted copy and return its record, or the problem."""
    corruption = CORRUPTIONS[name] if isinstance(name, str) else name
    rng = seeded_rng(seed, f"corrupt files/{copy.relative}")
    try:
        if corruption.kind == "audio":
            content = _corrupted_audio(copy, corruption, severity, rng, sample_rate)
        else:
            content = _png(corruption(read_image(copy.source), severity, rng, family=family))
    except (OSError, ValueError) as problem:
        return _Outcome(copy, {}, str(problem))
    write_whole(copy.target, content)
    digests = {"source_digest": _digest(copy.source.read_bytes()), "digest": _digest(content)}
    return _Outcome(copy, {"source": copy.relative, **digests})


def _corrupted_audio(copy: _Copy, corruption: Corruption, severity: float, rng: Rng, sample_rate: int | None) -> bytes:
    rate = sample_rate or open_audio(copy.source).sample_rate
    waveform = corruption(read_audio(copy.source, rate), severity, rng, sample_rate=rate)  # type: ignore[call-arg]
    return _wav(waveform, rate) if copy.target.suffix == ".wav" else _flac(waveform, rate)


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def _wav(waveform: Waveform, sample_rate: int) -> bytes:
    file = io.BytesIO()
    wavfile.write(file, sample_rate, as_pcm16(waveform))
    return file.getvalue()


def _flac(waveform: Waveform, sample_rate: int) -> bytes:
    soundfile = extra("audio", "soundfile", "writing FLAC instead of WAV needs")
    file = io.BytesIO()
    soundfile.write(file, as_pcm16(waveform), sample_rate, format="FLAC")
    return file.getvalue()


def _kept(out: Path, protocol: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the manifest's records of earlier copies; copies made with other settings are refused."""
    if not (out / MANIFEST).exists():
        return {}
    lines = []
    for line in (out / MANIFEST).read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:  # the last line of an interrupted run
            break
    unlike = [key for key, value in protocol.items() if lines and lines[0].get(key) != value]
    if unlike:
        key = unlike[0]
        raise ValueError(
            f"{out} holds copies with {key} {lines[0].get(key)!r}, not {protocol[key]!r}; choose another folder"
        )
    return {record["file"]: record for record in lines[1:]}


def _is_done(copy: _Copy, record: Mapping[str, str] | None) -> bool:
    return (
        record is not None
        and copy.target.is_file()
        and record["digest"] == _digest(copy.target.read_bytes())
        and record["source_digest"] == _digest(copy.source.read_bytes())
    )


def _within(out: Path, copy: _Copy) -> str:
    return copy.target.relative_to(out).as_posix()


def _append(out: Path, line: Mapping[str, Any]) -> None:
    with (out / MANIFEST).open("a") as file:
        file.write(json.dumps(line) + "\n")


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
