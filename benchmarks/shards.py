"""Measure shards: opening them with and without their indices, and reading: python benchmarks/shards.py --images 2000.

Images have 224 pixels. Figures are processor time; the time and memory of 7.5 million are those of an index of that
length.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measured import run

from holdfast.data import Digits, InMemoryImages, Shards
from holdfast.data.shard_index import ShardIndex, index_path
from holdfast.streams import continual, export_shards

MANY, SHARD = 7_500_000, 25_000


def seconds(call: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def exported(folder: Path, images: int) -> None:
    """Export a stream of images with 224 pixels."""
    digits = Digits("test")
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (64, 28, 28, 3), np.uint8).repeat(8, axis=1).repeat(8, axis=2)
    data = InMemoryImages(smooth, digits.labels[:64])
    export_shards(continual(data, corruptions=["contrast"], severity=3, samples_per_domain=images), folder)


def many(folder: Path) -> tuple[float, float]:
    """Return seconds and MiB of opening shards with `MANY` images, of which only the first one has content."""
    shard = next(iter(folder.glob("*.tar")))
    offset = Shards(paths=shard)
    span = (int(offset._offsets[0]), int(offset._sizes[0]))  # noqa: SLF001
    index = ShardIndex.of([span] * SHARD, list(range(1000)) * (SHARD // 1000), [("fog", "snow")] * SHARD)
    copies = [folder / f"copy_{number:05}.tar" for number in range(MANY // SHARD)]
    for copy in copies:
        copy.symlink_to(shard)
        index.save(copy)
    tracemalloc.start()
    took = seconds(lambda: Shards(paths=copies))
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return took, peak


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds of opening, the peak memory, and images per second of reading."""
    images = 400 if options.quick else options.images
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exported(folder, images)
        with_index = seconds(lambda: Shards(paths=folder))
        for path in folder.glob("*.tar"):
            index_path(path).unlink()
        without = seconds(lambda: Shards(paths=folder))
        shards = Shards(paths=folder)
        spans = [np.arange(start, start + 50) for start in range(0, images, 50)]
        rate = images / seconds(lambda: [shards.inputs(span) for span in spans])
        took, peak = many(folder)
    return {
        "images": images,
        "open_without_index_seconds": without,
        "open_with_index_seconds": with_index,
        "images_per_second": rate,
        "open_7500000_seconds": took,
        "open_7500000_peak_mib": peak,
    }


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    run(parser, measure)


if __name__ == "__main__":
    main()
