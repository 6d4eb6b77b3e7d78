"""Contact sheets of corruptions: images, or spectrograms of audio."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from holdfast.audio import Waveform
from holdfast.corruptions.audio.base import as_waveform
from holdfast.corruptions.audio.spectrum import analyse
from holdfast.corruptions.base import CORRUPTIONS
from holdfast.corruptions.samples import as_image
from holdfast.randomness import seeded_rng

SMALLEST_CELL, LARGEST_CELL, GAP, FONT_SIZE = 128, 224, 8, 14  # pixels
SPECTROGRAM_CELL = (200, 112)
SPECTROGRAM_WINDOW, SPECTROGRAM_DB = 512, 80  # samples, and the range below the loudest value of the clean clip
SPECTROGRAM_COLOURS = ((8, 6, 32), (72, 22, 110), (176, 52, 98), (242, 134, 54), (254, 240, 170))  # silent to loud


def contact_sheet(
    image: Image.Image | NDArray[np.uint8],
    names: Sequence[str],
    severities: Sequence[float],
    seed: int = 0,
    family: str | None = None,
) -> Image.Image:
    """Draw corruptions in rows and severities in columns.

    Args:
        image: one image, or an array (height, width, 3) of uint8.
        names: of the corruptions, one for each row.
        severities: from 0 to 5, one for each column.
        seed: of the random draws.
        family: of the severity tables, "32", "64" or "224"; None: the one that fits the size of the image.

    >>> contact_sheet(np.zeros((32, 32, 3), np.uint8), ["contrast"], [1, 5]).height
    170
    """
    clean, _ = as_image(image)
    size = _cell_size(clean.shape[1], clean.shape[0])

    def cell(name: str, severity: float, rng: np.random.Generator) -> Image.Image:
        return _shown(Image.fromarray(CORRUPTIONS[name](clean, severity, rng, family=family)), size)

    return _sheet(names, severities, seed, size, cell)


def audio_sheet(
    waveform: Waveform, names: Sequence[str], severities: Sequence[float], seed: int = 0, *, sample_rate: int = 16_000
) -> Image.Image:
    """Draw spectrograms of a clip: corruptions in rows, severities in columns.

    Time increases to the right and frequency upwards, to half the sample rate; colours span the 80 dB below the loudest
    value of the clean clip.

    Args:
        waveform: one clip, (samples,) float32 in [-1, 1].
        names: of the corruptions, one for each row.
        severities: from 0 to 5, one for each column.
        seed: of the random draws.
        sample_rate: of the clip, in Hz.
    """
    clean, _ = as_waveform(waveform)
    loudest = _decibels(clean).max()

    def cell(name: str, severity: float, rng: np.random.Generator) -> Image.Image:
        corrupted = CORRUPTIONS[name](clean, severity, rng, sample_rate=sample_rate)  # type: ignore[call-arg]
        return _spectrogram(_decibels(corrupted) - loudest)

    return _sheet(names, severities, seed, SPECTROGRAM_CELL, cell)


def spectrogram(waveform: Waveform) -> Image.Image:
    """Draw one clip: colours span the 80 dB below its loudest value. A clip below a window has silence added.

    >>> spectrogram(np.zeros(16_000, np.float32)).size, spectrogram(np.ones(9, np.float32)).size
    ((200, 112), (200, 112))
    """
    levels = _decibels(np.pad(waveform, (0, max(0, SPECTROGRAM_WINDOW - len(waveform)))))
    return _spectrogram(levels - levels.max())


def _sheet(
    names: Sequence[str],
    severities: Sequence[float],
    seed: int,
    size: tuple[int, int],
    cell: Callable[[str, float, np.random.Generator], Image.Image],
) -> Image.Image:
    if not names or not severities:
        raise ValueError("a contact sheet needs at least one corruption and one severity")
    font = ImageFont.load_default(FONT_SIZE)
    width, height = size
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
            rng = seeded_rng(seed, f"contact sheet/{name}")  # the same draws along a row: only the severity changes
            sheet.paste(cell(name, severity, rng), (left + column * (width + GAP), y))
    return sheet


def _cell_size(width: int, height: int) -> tuple[int, int]:
    """Return the cell size: small images enlarged by a whole factor, large ones reduced."""
    longest = max(width, height)
    zoom = -(-SMALLEST_CELL // longest) if longest <= LARGEST_CELL else LARGEST_CELL / longest
    return max(1, round(width * zoom)), max(1, round(height * zoom))


def _shown(cell: Image.Image, size: tuple[int, int]) -> Image.Image:
    return cell.resize(size, Image.Resampling.NEAREST if size[0] >= cell.width else Image.Resampling.BOX)


def _decibels(waveform: Waveform) -> NDArray[np.float32]:
    """Return levels in dB, (frames, frequencies)."""
    return np.asarray(20 * np.log10(np.abs(analyse(waveform, SPECTROGRAM_WINDOW)) + 1e-8), np.float32)


def _spectrogram(decibels: NDArray[np.float32]) -> Image.Image:
    """Return levels from -80 to 0 dB as an image, low frequencies at the bottom."""
    shares = np.clip(1 + decibels.T[::-1] / SPECTROGRAM_DB, 0, 1)
    stops = np.linspace(0, 1, len(SPECTROGRAM_COLOURS))
    channels = [np.interp(shares, stops, levels) for levels in zip(*SPECTROGRAM_COLOURS, strict=True)]
    image = Image.fromarray(np.rint(np.stack(channels, axis=-1)).astype(np.uint8))
    return image.resize(SPECTROGRAM_CELL, Image.Resampling.BILINEAR)
