"""Walks as strips and animations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.data import InMemoryImages
from holdfast.streams import Calibration, Transition, ccc, continual, walk_strip, write_walk_gif

POINTS = ((3, 0), (3, 1), (2, 1), (2, 2), (1, 2), (0, 2))
PATHS = tuple(
    Transition(a, b, POINTS, (40.0,) * 6) for a, b in (("contrast", "brightness"), ("brightness", "contrast"))
)
WALK = Calibration(PATHS, 40.0, family="224")


def test_a_strip_shows_the_ends_of_a_transition_and_steps_between(few: InMemoryImages) -> None:
    image = Image.fromarray(few.images[0])
    strip = walk_strip(WALK, image, frames=3)
    assert strip.width == 3 * (160 + 8)
    first, last = (np.asarray(strip)[4:164, x : x + 160] for x in (4, 2 * 168 + 4))
    assert first.std() < np.asarray(image).std()  # less contrast
    assert last.mean() > np.asarray(image).mean()  # more light
    stream = ccc(few, calibration=WALK)
    assert walk_strip(stream, few.images[0], frames=3).tobytes() == strip.tobytes()
    assert walk_strip(WALK, image, transition=1, frames=3).tobytes() != strip.tobytes()
    with pytest.raises(ValueError, match="only a CCC walk can be shown"):
        walk_strip(continual(few, corruptions=["clean"]), image)


def test_a_gif_has_a_frame_for_each_step(few: InMemoryImages, tmp_path: Path) -> None:
    path = write_walk_gif(tmp_path / "new" / "walk.gif", WALK, few.images[0], frame_ms=50)
    with Image.open(path) as animation:
        assert animation.n_frames == 12  # type: ignore[attr-defined]
        assert animation.info["duration"] == 50
