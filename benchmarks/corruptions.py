"""Measure images per second of every corruption.

    python benchmarks/corruptions.py [--severity 5] [--photos FILE] [--before CHECKOUT] [--json FILE] [name ...]

Runs on one thread; generators are created beforehand. If the package `imagecorruptions` is installed, it is measured
too, in alternation with ours, so that other jobs on the machine slow down both. Its 32-pixel figures use the 224-pixel
severities, the only ones it has. Figures are medians of processor time.

`--before CHECKOUT` measures an earlier checkout of holdfast instead, in alternation and in a process of its own, and
checks that both give the same pixels: the ratios then are those of a change. `--photos` takes the images from a mosaic
of photographs instead of the synthetic scene.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy reads it

import argparse
import hashlib
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.corruptions import CORRUPTIONS
from holdfast.randomness import seeded_rng

SIZES = {32: (64, 64), 224: (16, 2)}  # pixels -> images per batch, for ours and for the other package
SECONDS = 4.0  # minimum per line: a shared machine needs many rounds
ANSWER = "--answer"  # in the process of `Earlier`


def ours(name: str, severity: int, images: np.ndarray) -> Callable[[], object]:
    """Return a call that corrupts the whole batch."""
    rngs = [seeded_rng(0, "benchmark", index) for index in range(len(images))]
    return lambda: CORRUPTIONS[name].batch(images, severity, rngs)


def theirs(name: str, severity: int, images: np.ndarray) -> Callable[[], object] | None:
    """Return a call of `imagecorruptions`, which works image by image; None if it is not installed."""
    try:
        corrupt = _revived()
    except ImportError:
        return None
    return lambda: [corrupt(image, corruption_name=name, severity=severity) for image in images]


def _revived() -> Callable[..., np.ndarray]:
    """Return `imagecorruptions.corrupt`, patched for two names that current libraries no longer have."""
    warnings.simplefilter("ignore")
    setattr(np, "float_", np.float64)  # noqa: B010 (a name that numpy no longer has)
    from imagecorruptions import corrupt, corruptions
    from skimage.filters import gaussian

    def with_channels(image: np.ndarray, sigma: float, multichannel: bool = False, **options: Any) -> Any:
        return gaussian(image, sigma, channel_axis=-1 if multichannel else None, **options)

    corruptions.gaussian = with_channels
    return corrupt  # type: ignore[no-any-return]


class Earlier:
    """An earlier checkout of holdfast, which corrupts the same images in a process of its own."""

    def __init__(self, checkout: Path, photos: Path | None) -> None:
        command = [sys.executable, __file__, ANSWER, *([str(photos)] if photos else [])]
        paths = os.pathsep.join([str(checkout), str(Path(__file__).parent)])
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        )

    def call(self, name: str, severity: int, size: int) -> Callable[[], str]:
        """Return a call that corrupts the whole batch over there and returns its seconds and a digest."""
        return lambda: self._asked(f"{name} {severity} {size}")

    def _asked(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline()

    def __enter__(self) -> Earlier:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def answer(photos: Path | None = None) -> None:
    """Corrupt as asked on standard input, a batch per line; print the seconds and a digest of the pixels."""
    scenes = scenes_of(photos)
    for line in sys.stdin:
        name, severity, size = line.split()
        call = ours(name, int(severity), batch_of(scenes, int(size)))
        start = time.process_time()
        pixels = call()
        print(time.process_time() - start, digest(pixels), flush=True)


def digest(pixels: Any) -> str:
    """Return a digest of an array."""
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def scenes_of(photos: Path | None) -> np.ndarray:
    """Return images of 224 pixels: the tiles of a mosaic, or one synthetic scene."""
    if photos is not None:
        from PIL import Image

        mosaic = np.asarray(Image.open(photos).convert("RGB"))
        rows, columns = mosaic.shape[0] // 224, mosaic.shape[1] // 224
        return mosaic.reshape(rows, 224, columns, 224, 3).swapaxes(1, 2).reshape(-1, 224, 224, 3)
    y, x = np.mgrid[0:1:224j, 0:1:224j]
    scene = np.stack([x, y, (1 + np.sin(40 * x * y)) / 2], axis=-1)
    return np.uint8(255 * np.clip(scene + np.random.default_rng(0).normal(0, 0.05, scene.shape), 0, 1))[None]


def batch_of(scenes: np.ndarray, size: int) -> np.ndarray:
    """Return a batch of images of one size, the scenes repeated as needed."""
    return scenes[np.arange(SIZES[size][0]) % len(scenes), :size, :size]


def seconds_in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the median processor time of each call, measured in alternation; a call may tell its own seconds."""
    times: list[list[float]] = []
    until = time.perf_counter() + SECONDS
    while len(times) < 4 or time.perf_counter() < until:
        times.append([])
        for call in calls:
            start = time.process_time()
            output = call()
            times[-1].append(float(output.split()[0]) if isinstance(output, str) else time.process_time() - start)
    return [float(median) for median in np.median(times[1:], axis=0)]  # the first round warms up


def main() -> None:
    """Print one line per corruption, and the geometric mean of the ratios."""
    if sys.argv[1:2] == [ANSWER]:
        answer(*(Path(photos) for photos in sys.argv[2:]))
        return
    from measured import add_json, write  # an earlier checkout may not have what it imports

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=CORRUPTIONS.names("image"))
    parser.add_argument("--severity", type=int, default=5)
    parser.add_argument("--photos", type=Path, metavar="FILE", help="a mosaic of photographs of 224 pixels")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="compare with an earlier checkout of holdfast")
    add_json(parser)
    chosen = parser.parse_args()
    with Earlier(chosen.before, chosen.photos) if chosen.before else nullcontext() as earlier:
        measured = measure(chosen.names, chosen.severity, scenes_of(chosen.photos), earlier)
    write(chosen.json, {"severity": chosen.severity, "images_per_second": measured})


def measure(
    names: list[str], severity: int, scenes: np.ndarray, earlier: Earlier | None
) -> dict[str, dict[str, list[float]]]:
    """Measure every corruption at both sizes; return images per second, ours and theirs, by size and name."""
    measured: dict[str, dict[str, list[float]]] = {}
    for size, (count, fewer) in SIZES.items():
        images = batch_of(scenes, size)
        print(
            f"\n{size} pixels, batches of {count}: images per second, ours, {'before' if earlier else 'theirs'}, ratio"
        )
        ratios = []
        for name in names:
            few = images if earlier else images[: 1 if name == "glass_blur" else fewer]
            mine = ours(name, severity, images)
            if earlier:
                other: Callable[[], object] | None = earlier.call(name, severity, size)
                assert earlier.call(name, severity, size)().split()[1] == digest(mine()), f"{name} changed its pixels"
            else:
                other = theirs(name, severity, few)
            calls = ours(name, severity, images), other
            seconds = seconds_in_turn(*filter(None, calls))
            line = f"{name:20}{count / seconds[0]:10.0f}"
            if len(seconds) == 2:
                ratios.append((count / seconds[0]) / (len(few) / seconds[1]))
                line += f"{len(few) / seconds[1]:10.0f}{ratios[-1]:8.2f}x"
            print(line, flush=True)
            rates = [many / took for many, took in zip((count, len(few)), seconds, strict=False)]
            measured.setdefault(f"{size} px", {})[name] = rates
        if ratios:
            print(f"{'geometric mean':40}{np.exp(np.mean(np.log(ratios))):8.1f}x")
    return measured


if __name__ == "__main__":
    main()
