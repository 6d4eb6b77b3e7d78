"""Measure images per second of every corruption.

    python benchmarks/corruptions.py [--severity 5] [--photos FILE] [--before CHECKOUT] [--json FILE] [name ...]

Runs on one thread; generators are created beforehand. If the package `imagecorruptions` is installed, it is measured
too, in alternation with ours, so that other jobs on the machine slow down both. Its 32-pixel figures use the 224-pixel
severities, the only ones it has. Figures are medians of processor time. `--without-fast` leaves the extra `fast` out.

`--before CHECKOUT` measures an earlier checkout of holdfast instead, in alternation and in a process of its own, and
checks that both give the same pixels: the ratios then are those of a change. `--photos` takes the images from a mosaic
of photographs instead of the synthetic scene.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy reads it

import argparse
import hashlib
import importlib.util
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from importlib import resources
from pathlib import Path
from statistics import geometric_mean
from types import ModuleType
from typing import Any

import numpy as np

with suppress(ImportError):  # an earlier checkout may not have what it imports, and only answers
    from measured import in_turn, run

    from holdfast.corruptions import fast
from holdfast.corruptions import CORRUPTIONS
from holdfast.randomness import seeded_rng

SIZES = {32: (64, 64), 224: (16, 2)}  # pixels -> images per batch, for ours and for the other package
SECONDS, QUICK_SECONDS = 1.0, 0.1  # minimum per line
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
    """Return `imagecorruptions.corrupt`, patched for names that current libraries no longer have."""
    warnings.simplefilter("ignore")
    setattr(np, "float_", np.float64)  # noqa: B010 (a name that numpy no longer has)
    if "pkg_resources" not in sys.modules and not importlib.util.find_spec("pkg_resources"):
        files = ModuleType("pkg_resources")
        files.resource_filename = lambda name, path: str(resources.files(name.partition(".")[0]) / path)  # type: ignore[attr-defined]
        sys.modules["pkg_resources"] = files
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

    def corrupt(self, name: str, severity: int, size: int) -> tuple[float, str]:
        """Corrupt the whole batch over there; return its seconds and a digest."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(f"{name} {severity} {size}", file=self.process.stdin, flush=True)
        seconds, pixels = self.process.stdout.readline().split()
        return float(seconds), pixels

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


def leave_out_fast() -> None:
    """Let holdfast look for the extra `fast` as if it were not installed; it looks only once."""
    hidden = ("numba", "cv2")
    sys.modules |= dict.fromkeys(hidden)  # type: ignore[arg-type]
    assert (fast.loops(), fast.recoded()) == (None, None)
    for name in hidden:
        del sys.modules[name]  # the other package needs it


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return images per second of every corruption at both sizes, ours and theirs, and the means of the ratios."""
    seconds = QUICK_SECONDS if options.quick else SECONDS
    scenes = scenes_of(options.photos)
    if options.without_fast:
        leave_out_fast()
    measured: dict[str, Any] = {"severity": options.severity}
    with Earlier(options.before, options.photos) if options.before else nullcontext() as earlier:
        for size, (count, fewer) in SIZES.items():
            images = batch_of(scenes, size)
            rows = measured[f"{size} px"] = {}
            for name in options.names:
                mine = ours(name, options.severity, images)
                few = images if earlier else images[: 1 if name == "glass_blur" else fewer]
                if earlier:
                    asked = name, options.severity, size
                    assert earlier.corrupt(*asked)[1] == digest(mine()), f"{name} changed its pixels"
                    other: Callable[[], object] | None = lambda asked=asked: earlier.corrupt(*asked)[0]  # noqa: E731
                else:
                    other = theirs(name, options.severity, few)
                times = in_turn(*filter(None, (mine, other)), rounds=3, seconds=seconds)
                rates = [many / took for many, took in zip((count, len(few)), times, strict=False)]
                rows[name] = dict(zip(("images_per_second", "peer_per_second"), rates, strict=False))
                if other:
                    rows[name]["ratio"] = rates[0] / rates[1]
            measured[f"{size} px, all"] = summary(rows)
    return measured


def summary(rows: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the lowest rate, and the geometric mean of the ratios without glass blur, whose peer is a Python loop."""
    ratios = [row["ratio"] for name, row in rows.items() if "ratio" in row and name != "glass_blur"]
    lowest = {"slowest_per_second": min(row["images_per_second"] for row in rows.values())}
    return {**lowest, **({"ratio": geometric_mean(ratios)} if ratios else {})}


def main() -> None:
    """Measure, or corrupt as the process of `Earlier`."""
    if sys.argv[1:2] == [ANSWER]:
        answer(*(Path(photos) for photos in sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=CORRUPTIONS.names("image"))
    parser.add_argument("--severity", type=int, default=5)
    parser.add_argument("--photos", type=Path, metavar="FILE", help="a mosaic of photographs of 224 pixels")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="compare with an earlier checkout of holdfast")
    parser.add_argument("--without-fast", action="store_true", help="measure what works without the extra `fast`")
    run(parser, measure)


if __name__ == "__main__":
    main()
