"""Export streams as WebDataset shards with the keys and sizes of the official CCC generator."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions import CORRUPTIONS
from holdfast.data.shard_index import ShardIndex
from holdfast.machine.children import CHILDREN
from holdfast.machine.folders import held, write_whole
from holdfast.options.own_code import load_files, loaded_files
from holdfast.records import Picks
from holdfast.streams.stream import Stream

OFFICIAL_JPEG_QUALITY = 85
Span = tuple[Path, int, int]  # a shard, and the positions it begins and ends at


def export_shards(
    stream: Stream, out: str | Path, *, shard_images: int = 25_000, workers: int = 1, part: tuple[int, int] = (1, 1)
) -> list[Path]:
    """Write a stream to `serial_00000.tar` and so on in the folder `out`, and return the files.

    Each sample has `input.jpg` (of the stream's storage quality, or 85), `output.cls` and `info`. A shard holds whole
    steps of a walk, at least `shard_images` images. Shards do not depend on the number of `workers`, which are
    processes. Each shard is written completely or not at all, with an index beside it, and existing shards are not
    written again. `part=(3, 8)`
    writes the third of eight parts, so that eight jobs on a shared folder write all shards at the same time.

    Args:
        stream: what is written.
        out: folder of the shards.
        shard_images: least number of images in a shard.
        workers: number of processes; shards do not depend on it.
        part: number of this part, from 1, and number of parts.
    """
    if stream.input_spec.kind != "image":
        raise ValueError(f"shards hold images, and {stream.data.name} holds audio; iterate over its batches instead")
    if stream.length is None:
        raise ValueError("an endless stream cannot be exported; limit its length, e.g. ccc(…, samples=100_000)")
    if shard_images < 1 or workers < 1:
        raise ValueError(f"shard_images and workers must be at least 1, got {shard_images} and {workers}")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with held(out, wait=True):
        _settle(
            out / "stream.json", {"fingerprint": stream.fingerprint, "shard_images": shard_images, "spec": stream.spec}
        )
    with held(out) if part == (1, 1) else nullcontext():  # parts are disjoint
        spans = [
            (out / f"serial_{number:05}.tar", start, stop)
            for number, (start, stop) in enumerate(shard_spans(stream.length, shard_images, stream.plan.step_samples))
            if number % part[1] == part[0] - 1
        ]
        missing = [span for span in spans if not span[0].exists()]
        shares = [missing[worker::workers] for worker in range(min(workers, len(missing)))]
        if len(shares) < 2:
            for share in shares:
                _write_shards(stream, share)
        else:
            with ProcessPoolExecutor(len(shares), CHILDREN, load_files, (loaded_files(),)) as pool:
                for done in [pool.submit(_write_shards, stream, share) for share in shares]:
                    done.result()
    return [path for path, _, _ in spans]


def shard_spans(length: int, shard_images: int = 25_000, images_per_step: int = 1) -> list[tuple[int, int]]:
    """Return where shards begin and end: whole steps, until a shard holds at least `shard_images` images.

    >>> [len(shard_spans(*run)) for run in ((7_500_000, 25_000, 1000), (7_514_000, 25_000, 2000))]
    [300, 289]
    >>> shard_spans(7_514_000, 25_000, 2000)[0]
    (0, 26000)
    """
    size = -(-shard_images // images_per_step) * images_per_step
    return [(start, min(start + size, length)) for start in range(0, length, size)]


def _write_shards(stream: Stream, spans: Sequence[Span]) -> None:
    quality = stream.rendering.storage_jpeg_quality or OFFICIAL_JPEG_QUALITY
    # The shard is the storage: its images must be encoded once only.
    before = Stream(stream.plan, stream.data, replace(stream.rendering, storage_jpeg_quality=None))
    for path, start, stop in spans:
        partial = path.with_name(f".{path.name}.partial")
        extents: list[tuple[int, int]] = []
        try:
            with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as shard:
                for index, files in enumerate(_records(before, start, stop, quality)):
                    for name, content in sorted(files.items()):
                        entry = tarfile.TarInfo(f"sample_{index}.{name}")
                        entry.size, entry.mode = len(content), 0o444  # no date, so that equal samples make equal files
                        if name == "input.jpg":
                            extents.append((shard.offset + tarfile.BLOCKSIZE, entry.size))
                        shard.addfile(entry, BytesIO(content))
            _index(stream, start, stop, extents).save(path, partial)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def _index(stream: Stream, start: int, stop: int, extents: Sequence[tuple[int, int]]) -> ShardIndex:
    """Return the index of a shard, with the accuracies that the shard itself has no place for."""
    picks, expected = stream.plan.picks(start, stop), stream.plan.expected(np.arange(start, stop))
    names = [tuple(map(_short, domain.corruptions[:2])) for domain in stream.plan.domains]
    stated = [names[domain] for domain in picks.domains]
    labels = stream.data.labels[picks.samples].tolist()
    return ShardIndex.of(extents, labels, stated, () if expected is None else expected.tolist())


def _records(stream: Stream, start: int, stop: int, quality: int) -> Iterator[dict[str, bytes]]:
    for position in range(start, stop, 64):
        end = min(position + 64, stop)
        batch, picks = stream.render(position, end), stream.plan.picks(position, end)
        images = batch.inputs.mul(255).round().byte().permute(0, 2, 3, 1).numpy()
        for row, (image, label) in enumerate(zip(images, batch.labels, strict=True)):
            info = _info(stream, picks, row, int(label))
            yield {"input.jpg": _jpeg(image, quality), "output.cls": str(label).encode(), "info": info.encode()}


def _jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    file = BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality, optimize=True)
    return file.getvalue()


def _info(stream: Stream, picks: Picks, row: int, label: int) -> str:
    """Return the official info text: class folder, file name, and every corruption with its severity."""
    sample = int(picks.samples[row])
    files = getattr(stream.data, "files", None)  # data read from image files has their names
    parts = {"dir": stream.data.class_names[label], "name": Path(files[sample]).name if files else str(sample)}
    corruptions = stream.plan.domains[picks.domains[row]].corruptions
    for number, (name, severity) in enumerate(zip(corruptions, picks.severities[row], strict=False), 1):
        parts |= {f"n{number}": _short(name), f"s{number}": str(float(severity))}
    return "".join(f"++{key}++{value}" for key, value in parts.items())


def _short(name: str) -> str:
    """Return the official name of a corruption."""
    return next((alias for alias, full in CORRUPTIONS.aliases.items() if full == name), name)


def _settle(path: Path, content: dict[str, object]) -> None:
    """Write the description of the export, or check that the folder has the same one."""
    if path.exists():
        before = json.loads(path.read_text())
        if (before.get("fingerprint"), before.get("shard_images")) != (content["fingerprint"], content["shard_images"]):
            raise ValueError(f"{path.parent} holds shards of another stream or of another size; choose another folder")
        return
    write_whole(path, json.dumps(content).encode())
