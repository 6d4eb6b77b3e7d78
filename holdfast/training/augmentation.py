"""Augmentation of training samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.audio import Recording, Waveform
from holdfast.corruptions.audio import mix
from holdfast.corruptions.audio.noise import cut_noise
from holdfast.data import Dataset
from holdfast.models.conmix import MelImage

View: TypeAlias = Callable[[Dataset, NDArray[np.int64], np.random.Generator], Tensor]  # of the samples at these indices

MAX_ROTATION_DEGREES = 10.0
MAX_SCALE_CHANGE = 0.1
MAX_SHIFT_SHARE = 0.1  # of the image's side
PADDING_SHARE = 1 / 8  # of the image's side, on each side, before it is cropped to its size again
UNCROPPED_SIDE = 256  # of spectrograms that are cropped to the 224 px of the network


def as_stored(samples: Dataset, indices: NDArray[np.int64]) -> Tensor:
    """Return images in [0, 1], (n, 3, height, width), or waveforms, (n, samples)."""
    inputs = samples.inputs(indices)
    return _unit_range(inputs) if samples.input_spec.kind == "image" else torch.from_numpy(inputs)


def _unit_range(images: NDArray[np.uint8]) -> Tensor:
    # Channels stay last in memory, as when the shipped weights were trained: the rounding depends on the layout.
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255


def moved(samples: Dataset, indices: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
    """Return images slightly rotated, scaled and shifted; without noise, blur or contrast, which are test shifts."""
    inputs = as_stored(samples, indices)
    angles = np.deg2rad(rng.uniform(-MAX_ROTATION_DEGREES, MAX_ROTATION_DEGREES, len(inputs)))
    scales = rng.uniform(1 - MAX_SCALE_CHANGE, 1 + MAX_SCALE_CHANGE, len(inputs))
    shifts = rng.uniform(-2 * MAX_SHIFT_SHARE, 2 * MAX_SHIFT_SHARE, (2, len(inputs)))  # the grid's side is 2
    cosines, sines = scales * np.cos(angles), scales * np.sin(angles)
    rows = np.array([[cosines, -sines, shifts[0]], [sines, cosines, shifts[1]]])
    affine = torch.from_numpy(rows.transpose(2, 0, 1)).to(inputs.dtype)  # (batch, 2, 3)
    grid = F.affine_grid(affine, list(inputs.shape), align_corners=False)
    return F.grid_sample(inputs, grid, align_corners=False)


def flipped_crops(samples: Dataset, indices: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
    """Return images padded with black, cropped to their size at a random position, and half of them flipped.

    He et al. 2016, Deep residual learning for image recognition, section 4.2: four pixels on each side of CIFAR images.
    """
    images = samples.inputs(indices)
    height, width = images.shape[1:3]
    margin = round(PADDING_SHARE * height)
    padded = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    corners = rng.integers(0, 2 * margin + 1, (len(images), 2))
    crops = np.stack([image[y : y + height, x : x + width] for image, (y, x) in zip(padded, corners, strict=True)])
    flips = rng.random(len(images)) < 0.5
    crops[flips] = crops[flips, :, ::-1]
    return _unit_range(crops)


@dataclass(frozen=True)
class AudioView:
    """Add faint noise to clips, pad or cut them at a random position, and roll them, in that order."""

    shift_share: float = 0.0  # largest roll as a share of the length, in both directions
    noises: tuple[Recording, ...] = ()
    noise_snr_db: tuple[float, float] = (50.0, 50.0)  # drawn uniformly between the two
    noise_share: float = 1.0  # share of the clips with noise
    uniform_level: float = 0.0  # noise uniform from 0 to this level, added to every clip
    noise_in_silence: bool = False  # noise also in the padding, where the official code has none

    def __call__(self, samples: Dataset, indices: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """Return augmented clips, (n, samples)."""
        # Audio files have clips of their own lengths; arrays have one length already.
        clip = getattr(samples, "clip", lambda index: samples.inputs(np.array([index]))[0])
        (length,), rate = samples.input_spec.shape, samples.input_spec.sample_rate or 0
        return torch.from_numpy(np.stack([self._heard(clip(int(index)), length, rate, rng) for index in indices]))

    def _heard(self, clip: Waveform, samples: int, sample_rate: int, rng: np.random.Generator) -> Waveform:
        if self.noise_in_silence:
            clip = self._with_noise(placed(clip, samples, rng), sample_rate, rng)
        else:
            clip = placed(self._with_noise(clip, sample_rate, rng), samples, rng)
        furthest = int(self.shift_share * samples)
        return np.roll(clip, rng.integers(-furthest, furthest + 1)) if furthest else clip

    def _with_noise(self, clip: Waveform, sample_rate: int, rng: np.random.Generator) -> Waveform:
        if self.uniform_level:
            clip = clip + np.float32(self.uniform_level) * rng.random(len(clip), np.float32)
        if self.noises and rng.random() < self.noise_share:
            clip = mix(clip, cut_noise(self.noises, rng, len(clip), sample_rate), rng.uniform(*self.noise_snr_db))
        return clip


def placed(clip: Waveform, samples: int, rng: np.random.Generator) -> Waveform:
    """Return a clip of `samples` samples: padded with silence or cut, at a random position.

    >>> placed(np.ones(3, np.float32), 5, np.random.default_rng(0)).sum()
    np.float32(3.0)
    """
    spare = abs(samples - len(clip))
    start = int(rng.integers(spare + 1))
    return clip[start : start + samples] if len(clip) > samples else np.pad(clip, (start, spare - start))


@contextmanager
def cropping_spectrograms(network: nn.Module, rng: np.random.Generator) -> Iterator[None]:
    """Crop and mirror the images of a network with a `front_end` that makes them, as CoNMix++ does while it trains.

    A mirrored spectrogram is one of reversed time. Standardisation comes before the crop, in the official code after.
    """
    front_end = getattr(network, "front_end", None)
    if not isinstance(front_end, MelImage):
        raise ValueError(
            f"{type(network).__name__} makes no spectrogram images that could be cropped; train a CoNMix++ network "
            "(--model conmix), or choose another procedure"
        )
    side = front_end.side

    def cropped(_module: nn.Module, _inputs: object, images: Tensor) -> Tensor:
        spare = images.shape[-1] - side
        corners, mirrored = rng.integers(spare + 1, size=(len(images), 2)), rng.random(len(images)) < 0.5
        windows = [
            image[:, top : top + side, left : left + side]
            for image, (top, left) in zip(images, corners.tolist(), strict=True)
        ]
        return torch.stack([part.flip(2) if flip else part for part, flip in zip(windows, mirrored, strict=True)])

    with front_end.of_side(round(side * UNCROPPED_SIDE / 224)), front_end.register_forward_hook(cropped):
        yield
