"""Corruptions to look at and to keep: a contact sheet, and corrupted copies of image files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from holdfast.corruptions.base import CORRUPTIONS
from holdfast.corruptions.files import images_in, read_image
from holdfast.corruptions.samples import as_image
from holdfast.randomness import seeded_rng

__all__ = ["contact_sheet", "corrupt_files"]

SMALLEST_CELL, LARGEST_CELL, GAP, FONT_SIZE = 128, 224, 8, 14  # pixels


def contact_sheet(
    image: Image.Image | NDArray[np.uint8],
    names: Sequence[str],
    severities: Sequence[float],
    seed: int = 0,
    family: str | None = None,
) -> Image.Image:
    """Return one picture of all corruptions, a row each, at all severities, a column each.

    >>> contact_sheet(np.zeros((32, 32, 3), np.uint8), ["contrast"], [1, 5]).height
    170
    """
    if not names or not severities:
        raise ValueError("a contact sheet needs at least one corruption and one severity; name them")
    clean, _ = as_image(image)
    font = ImageFont.load_default(FONT_SIZE)
    width, height = _cell_size(clean.shape[1], clean.shape[0])
    label_width = max(int(font.getlength(name)) + 1 for name in names)
    left, top = label_width + 2 * GAP, FONT_SIZE + 2 * GAP  # of the first cell
    columns, rows = len(severities), len(names)
    sheet = Image.new("RGB", (left + columns * (width + GAP), top + rows * (height + GAP) + GAP // 2), "white")
    canvas = ImageDraw.Draw(sheet)
    for column, severity in enumerate(severities):
        middle = left + column * (width + GAP) + width // 2
        canvas.text((middle, top - GAP), f"severity {severity:g}", "black", font, anchor="ms")
    for row, name in enumerate(names):
        y = top + row * (height + GAP)
        canvas.text((left - GAP, y + height // 2), name, "black", font, anchor="rm")
        for column, severity in enumerate(severities):
            rng = seeded_rng(seed, f"contact sheet/{name}")  # one draw for the whole row: only the severity changes
            cell = Image.fromarray(CORRUPTIONS[name](clean, severity, rng, family=family))
            sheet.paste(_shown(cell, (width, height)), (left + column * (width + GAP), y))
    return sheet


def _cell_size(width: int, height: int) -> tuple[int, int]:
    """Enlarge small pictures by a whole factor, so that their pixels stay square, and fit large ones into a cell."""
    longest = max(width, height)
    scale = -(-SMALLEST_CELL // longest) if longest <= LARGEST_CELL else LARGEST_CELL / longest
    return max(1, round(width * scale)), max(1, round(height * scale))


def _shown(cell: Image.Image, size: tuple[int, int]) -> Image.Image:
    return cell.resize(size, Image.Resampling.NEAREST if size[0] >= cell.width else Image.Resampling.BOX)


def corrupt_files(
    paths: Iterable[str | Path],
    name: str,
    severity: float,
    out: str | Path,
    seed: int = 0,
    family: str | None = None,
) -> list[Path]:
    """Write corrupted copies of image files, and of all images in folders, as PNG into the folder `out`.

    A folder keeps its tree. What is drawn for a file depends on the seed and its path within the folder only.
    Files that cannot be read are left out, and named in an error once all the others are written.
    """
    corruption = CORRUPTIONS[name]
    out = Path(out)
    sources = _sources(paths, out)
    written, unreadable = [], []
    for target, (source, relative) in sources.items():
        try:
            image = read_image(source)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
            unreadable.append(f"{source} ({problem})")
            continue
        rng = seeded_rng(seed, f"corrupt files/{relative.as_posix()}")
        _write(corruption(image, severity, rng, family=family), target)
        written.append(target)
    if unreadable:
        raise ValueError(
            f"{len(unreadable)} of {len(sources)} files could not be read as images, the others were written to "
            f"{out}; repair or remove {'; '.join(unreadable)}"
        )
    return written


def _sources(paths: Iterable[str | Path], out: Path) -> dict[Path, tuple[Path, Path]]:
    """Map each file to write to the file it is made from and that file's path within the folder that was given."""
    sources: dict[Path, tuple[Path, Path]] = {}
    for path in map(Path, paths):
        if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
            raise ValueError(f"the output folder {out} lies inside the input folder {path}; choose one outside of it")
        for source in images_in(path):
            relative = source.relative_to(path) if path.is_dir() else Path(source.name)
            target = out / relative.with_suffix(".png")
            if target in sources:
                raise ValueError(f"{sources[target][0]} and {source} would both become {target}; run them one by one")
            sources[target] = source, relative
    inputs = {source.resolve() for source, _ in sources.values()}
    for target in sources:
        if target.resolve() in inputs:
            raise ValueError(f"{target} is itself an input and would be overwritten; choose another output folder")
    return sources


def _write(image: NDArray[np.uint8], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    try:
        Image.fromarray(image).save(partial, "PNG")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
