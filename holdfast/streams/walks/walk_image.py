"""Show a walk: one image from one corruption to the next, as a strip or an animation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from holdfast.corruptions import CORRUPTIONS
from holdfast.randomness import seeded_rng
from holdfast.streams.stream import Stream
from holdfast.streams.walks.transitions import Calibration, Transition
from holdfast.streams.walks.walk import Walk

SMALLEST_FRAME, GAP, FONT_SIZE, LINE = 160, 8, 13, 17  # pixels


def walk_strip(
    walk: Calibration | Stream,
    image: Image.Image | NDArray[np.uint8],
    *,
    transition: int = 0,
    frames: int = 7,
    seed: int = 0,
) -> Image.Image:
    """Return one transition as a strip of evenly spaced steps, with severities and expected accuracy.

    Args:
        walk: a calibration, or a stream of one.
        image: to which the corruptions are applied.
        transition: index of the transition.
        frames: number of steps shown.
        seed: of the random draws.

    >>> path = Transition("contrast", "brightness", ((2, 0), (1, 0), (1, 1), (0, 1)), (30.0, 50.0, 40.0, 60.0))
    >>> walk_strip(Calibration((path,), 40.0), np.zeros((32, 32, 3), np.uint8), frames=4).size
    (672, 227)
    """
    calibration, family = _calibration_of(walk)
    chosen = calibration.transitions[transition]
    steps = np.unique(np.linspace(0, len(chosen.points) - 1, frames).round().astype(int)).tolist()
    drawn = list(_frames(chosen, image, steps, seed, family))
    width, height = drawn[0].size
    strip = Image.new("RGB", (len(drawn) * width, height), "white")
    for column, frame in enumerate(drawn):
        strip.paste(frame, (column * width, 0))
    return strip


def write_walk_gif(
    path: str | Path,
    walk: Calibration | Stream,
    image: Image.Image | NDArray[np.uint8],
    *,
    seed: int = 0,
    frame_ms: int = 120,
) -> Path:
    """Write all transitions as an animated GIF, one frame per step.

    Args:
        path: of the GIF file.
        walk: a calibration, or a stream of one.
        image: to which the corruptions are applied.
        seed: of the random draws.
        frame_ms: milliseconds that a step is shown.
    """
    calibration, family = _calibration_of(walk)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = [
        frame
        for transition in calibration.transitions
        for frame in _frames(transition, image, range(len(transition.points)), seed, family)
    ]
    frames[0].save(path, "GIF", save_all=True, append_images=frames[1:], duration=frame_ms, loop=0)
    return path


def _calibration_of(walk: Calibration | Stream) -> tuple[Calibration, str | None]:
    """Return the calibration of a walk and the family of its severity tables."""
    if isinstance(walk, Calibration):
        return walk, walk.family
    if not isinstance(walk.plan, Walk):
        raise ValueError("only a CCC walk can be shown; pass a stream built by ccc, or a calibration")
    return walk.plan.calibration, walk.rendering.family


def _frames(
    transition: Transition,
    image: Image.Image | NDArray[np.uint8],
    steps: Iterable[int],
    seed: int,
    family: str | None,
) -> Iterator[Image.Image]:
    names = transition.first, transition.second
    for step in steps:
        severities = [level / 4 for level in transition.points[step]]
        corrupted = image if isinstance(image, Image.Image) else Image.fromarray(image)
        for name, severity in zip(names, severities, strict=True):
            # The draws are the same at every step: only the severities change.
            corrupted = CORRUPTIONS[name](corrupted, severity, seeded_rng(seed, f"walk/{name}"), family=family)
        captions = [f"{name} {severity:.2f}" for name, severity in zip(names, severities, strict=True)]
        yield _captioned(corrupted, [*captions, f"{transition.expected_percent[step]:.0f} % expected"])


def _captioned(image: Image.Image, lines: list[str]) -> Image.Image:
    """Return the image above the lines of text; small images are enlarged by a whole factor."""
    zoom = max(1, SMALLEST_FRAME // max(image.size))
    width, height = image.width * zoom, image.height * zoom
    frame = Image.new("RGB", (width + GAP, height + 2 * GAP + len(lines) * LINE), "white")
    frame.paste(image.convert("RGB").resize((width, height), Image.Resampling.NEAREST), (GAP // 2, GAP // 2))
    canvas, font = ImageDraw.Draw(frame), ImageFont.load_default(FONT_SIZE)
    for line, text in enumerate(lines):
        canvas.text((frame.width // 2, height + GAP + line * LINE), text, "black", font, anchor="ma")
    return frame
