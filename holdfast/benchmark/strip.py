"""A strip of the stream: a few of the samples that the model saw, with domain and severity, for the report.

It is written once for each stream and seed. It depends on the stream alone, so that single, grouped and resumed runs
with any number of workers write the same file; it is no part of the protocol of a run.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions.sheet import spectrogram
from holdfast.machine.folders import write_whole
from holdfast.records import Picks
from holdfast.streams import Stream

POSITIONS = 6  # along the stream
NEIGHBOURS, CLIPS = 4, 2  # consecutive images or clips at each
ENDLESS = 2**15  # samples of an endless stream that the strip covers
EXACT, LARGEST = 64, 96  # pixels: images up to the first are kept as they are, larger ones are reduced to the second
SPECTROGRAM, COLOURS = (80, 48), 16  # pixels
HEARD_SECONDS = 2  # of the first clip at each position
MU_LAW = 7  # the number of that format in WAV files


def write_strip(folder: Path, stream: Stream, seed: int, total: int | None) -> Path:
    """Write the strip of a stream into a folder unless it is there, and return its file."""
    path = folder / f"{stream.protocol}-{seed}-{total or 'endless'}.json"
    if not path.exists():
        write_whole(path, json.dumps(make_strip(stream, total)).encode())
    return path


def make_strip(stream: Stream, total: int | None) -> list[dict[str, Any]]:
    """Return samples at even distances along a stream: position, domain, severities, images, and audio if it is that.

    >>> from holdfast.data import Digits
    >>> from holdfast.streams import continual
    >>> strip = make_strip(continual(Digits("test"), corruptions=["fog"], samples_per_domain=80), 80)
    >>> [shown["position"] for shown in strip], strip[0]["severities"], len(strip[0]["images"])
    ([6, 20, 33, 46, 60, 73], {'fog': 5.0}, 4)
    """
    length = total or ENDLESS
    count = min(POSITIONS, length)
    return [_shown(stream, (2 * index + 1) * length // (2 * count), length) for index in range(count)]


def _shown(stream: Stream, start: int, length: int) -> dict[str, Any]:
    rate = stream.input_spec.sample_rate
    stop = min(start + (NEIGHBOURS if rate is None else CLIPS), length)
    batch, picks = stream.read(start, stop), stream.plan.picks(start, stop)
    samples = batch.inputs.numpy()
    shown = {"position": start, "domain": batch.domains[0], "severities": _severities(stream, picks)}
    if rate is None:
        return {**shown, "images": [_link(_picture(Image.fromarray(sample))) for sample in samples]}
    images = [_link(_png(spectrogram(clip).resize(SPECTROGRAM).quantize(COLOURS))) for clip in samples]
    return {**shown, "images": images, "audio": f"data:audio/wav;base64,{_encoded(_wav(samples[0], rate))}"}


def _severities(stream: Stream, picks: Picks) -> dict[str, float]:
    """Return the corruptions of the first sample with their severities; those that are left out are absent."""
    corruptions = stream.plan.domains[picks.domains[0]].corruptions
    return {
        name: round(float(severity), 2)
        for name, severity in zip(corruptions, picks.severities[0], strict=False)
        if severity > 0
    }


def _picture(image: Image.Image) -> tuple[str, bytes]:
    if max(image.size) <= EXACT:
        return _png(image)
    image.thumbnail((LARGEST, LARGEST))
    return "jpeg", _saved(image, "jpeg", quality=85)


def _png(image: Image.Image) -> tuple[str, bytes]:
    return "png", _saved(image, "png", optimize=True)


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _link(image: tuple[str, bytes]) -> str:
    kind, content = image
    return f"data:image/{kind};base64,{_encoded(content)}"


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _wav(clip: NDArray[np.float32], rate: int) -> bytes:
    """Return the beginning of a clip as WAV with eight bits per sample, spaced by the mu-law of G.711."""
    levels = np.rint(32635 * np.clip(clip[: HEARD_SECONDS * rate], -1, 1)).astype(np.int32)
    biased = np.abs(levels) + 132
    segment = np.log2(biased).astype(np.int32) - 7
    step = (biased >> (segment + 3)) & 15
    codes = 255 - (np.where(levels < 0, 128, 0) | (segment << 4) | step)
    sound: bytes = codes.astype(np.uint8).tobytes() + bytes(len(codes) % 2)
    form = struct.pack("<4sIHHIIHHH", b"fmt ", 18, MU_LAW, 1, rate, rate, 1, 8, 0)
    fact = struct.pack("<4sII", b"fact", 4, len(codes))
    body = b"WAVE" + form + fact + struct.pack("<4sI", b"data", len(codes)) + sound
    return struct.pack("<4sI", b"RIFF", len(body)) + body
