"""Corruptions of images as batched torch formulas, for any device, on the same draws as the numpy ones.

The draws come from the generator of each sample on the host, so that a batch is the same on every device; at most one
value in a thousand differs from numpy's by a level, where a sum is rounded in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from holdfast.corruptions.base import Corruption as NumpyCorruption
from holdfast.corruptions.base import Images, Rng, family_of
from holdfast.corruptions.image.blur import SETTLE, disk
from holdfast.corruptions.image.border import reflect

Formula: TypeAlias = Callable[..., Tensor]  # images (n, height, width, 3), fields, quantities -> images
FORMULAS: dict[str, Formula] = {}


def corrupt(
    corruption: NumpyCorruption,
    images: Images,
    severity: float,
    rngs: list[Rng],
    *,
    family: str | None = None,
    device: str = "cpu",
) -> Images:
    """Return corrupted copies of images (n, height, width, 3), each from its own generator, computed on a device.

    >>> from holdfast.corruptions import CORRUPTIONS
    >>> int(corrupt(CORRUPTIONS["brightness"], np.zeros((1, 32, 32, 3), np.uint8), 5, []).max())
    76
    """
    quantities = corruption.quantities(severity, family or family_of(*images.shape[1:3]))
    fields: list[NDArray[Any]] = []
    if corruption.draw is not None:
        drawn = [corruption.draw(rng, image, *quantities) for rng, image in zip(rngs, images, strict=True)]
        fields = [np.stack(field) for field in zip(*drawn, strict=True)]
    placed = [torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (images, *fields)]
    corrupted: Images = FORMULAS[corruption.name](*placed, *quantities).cpu().numpy()
    return corrupted


def formula(name: str) -> Callable[[Formula], Formula]:
    """Register the torch formula of a corruption, as a decorator."""

    def register(function: Formula) -> Formula:
        FORMULAS[name] = function
        return function

    return register


def planes_of(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return images as (n, 3, height, width) of values in [0, 1]; divided by a tensor, as CUDA rounds like numpy."""
    planes = images.permute(0, 3, 1, 2).to(dtype)
    return planes / torch.full((), 255.0, dtype=dtype, device=images.device)


def images_of(planes: Tensor) -> Tensor:
    """Return planes of values in [0, 1] as images of 8 bits, truncated."""
    return (planes.clamp(0, 1) * 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


@formula("gaussian_noise")
def gaussian_noise(images: Tensor, noise: Tensor, sigma: float) -> Tensor:
    """Add normal noise of equal strength everywhere."""
    return (noise * (255 * sigma) + images).clamp_(0, 255).to(torch.uint8)


@formula("speckle_noise")
def speckle_noise(images: Tensor, noise: Tensor, sigma: float) -> Tensor:
    """Add normal noise in proportion to each value."""
    return ((noise * sigma + 1) * images).clamp_(0, 255).to(torch.uint8)


@formula("shot_noise")
def shot_noise(_images: Tensor, seen: Tensor, _per_photon: float) -> Tensor:
    """Return the photon counts, which are drawn by their tables."""
    return seen


@formula("impulse_noise")
def impulse_noise(images: Tensor, hit: Tensor, salt: Tensor, _share: float) -> Tensor:
    """Set a share of the channel values to black or white."""
    return torch.where(hit, salt.to(torch.uint8) * 255, images)


@formula("defocus_blur")
def defocus_blur(images: Tensor, radius: float, alias_sigma: float) -> Tensor:
    """Blur with a disk, borders mirrored."""
    kernel = torch.tensor(disk(radius, alias_sigma), device=images.device)
    last, height, width = len(kernel) - 1, *images.shape[1:3]
    before = (last + 1) // 2
    rows, columns = (
        torch.from_numpy(reflect(np.arange(-before, side + last - before), side, repeat_border=False)).to(images.device)
        for side in (height, width)
    )
    exact = int(kernel.count_nonzero()) <= 40  # as numpy's, a small kernel is summed in double precision
    dtype = torch.float64 if exact else torch.float32
    planes = planes_of(images, dtype)[:, :, rows][:, :, :, columns]
    blurred = F.conv2d(planes.flatten(0, 1).unsqueeze(1), kernel[None, None].to(dtype)).view(-1, 3, height, width)
    return images_of(blurred if exact else blurred + float(SETTLE))


@formula("gaussian_blur")
def gaussian_blur(images: Tensor, sigma: float) -> Tensor:
    """Blur with a Gaussian truncated at 4 sigma, borders replicated."""
    height, width = images.shape[1:3]
    down, across = (torch.from_numpy(_smoothing(side, sigma)).to(images.device) for side in (height, width))
    return images_of(down @ planes_of(images) @ across.T + float(SETTLE))


@lru_cache(maxsize=64)
def _smoothing(length: int, sigma: float) -> NDArray[np.float32]:
    weights: NDArray[Any] = ndimage.gaussian_filter1d(np.eye(length), sigma, axis=0, mode="nearest", truncate=4)
    return weights.astype(np.float32)


@formula("brightness")
def brightness(images: Tensor, shift: float) -> Tensor:
    """Raise the HSV value of every pixel and keep hue and saturation."""
    levels = torch.arange(256, device=images.device, dtype=torch.float64)
    full = torch.full((), 255.0, dtype=torch.float64, device=images.device)
    lifted = (levels / full + shift).clamp_max(1) * 255  # V' for each V
    value = images.amax(3, keepdim=True).long()
    top, slope = lifted[value], (lifted / levels.clamp_min(1))[value]
    return (top - (value - images) * slope).to(torch.uint8)


@formula("contrast")
def contrast(images: Tensor, factor: float) -> Tensor:
    """Move every channel towards its mean over the image."""
    full = torch.full((), 255.0, dtype=torch.float64, device=images.device)
    mean = images.sum((1, 2), keepdim=True, dtype=torch.int64) / (images.shape[1] * images.shape[2] * full)
    moved = (images / full - mean) * factor + mean
    return (moved.clamp_(0, 1) * 255).to(torch.uint8)


@formula("fog")
def fog(images: Tensor, noise: Tensor, strength: float, decay: float) -> Tensor:
    """Add clouds that are as bright as the brightest point of the image."""
    height, width = images.shape[1:3]
    side = 1 << (max(height, width, 2) - 1).bit_length()
    clouds = _plasma(noise, side, decay)[:, None, :height, :width]
    brightest = planes_of(images, noise.dtype).amax((1, 2, 3), keepdim=True)
    return images_of((planes_of(images, noise.dtype) + strength * clouds) * brightest / (brightest + strength))


def _plasma(noise: Tensor, side: int, decay: float) -> Tensor:
    """Return clouds (n, side, side) from 0 to 1, by the diamond-square algorithm on a torus."""
    clouds = noise.new_zeros(len(noise), 1, 1)
    amplitude, used = 100.0, 0
    while (count := clouds.shape[1]) < side:
        fields = noise[:, used : used + 3 * count**2].reshape(-1, 3, count, count)
        fields = amplitude * (2 * amplitude * fields - amplitude)
        pairs = clouds + clouds.roll(-1, 1)
        centres = (pairs + pairs.roll(-1, 2)) / 4 + fields[:, 0]
        finer = noise.new_empty(len(noise), 2 * count, 2 * count)
        finer[:, ::2, ::2], finer[:, 1::2, 1::2] = clouds, centres
        finer[:, ::2, 1::2] = ((centres + centres.roll(1, 1)) + (clouds + clouds.roll(-1, 2))) / 4 + fields[:, 1]
        finer[:, 1::2, ::2] = ((centres + centres.roll(1, 2)) + pairs) / 4 + fields[:, 2]
        clouds, amplitude, used = finer, amplitude / decay, used + 3 * count**2
    clouds = clouds - clouds.amin((1, 2), keepdim=True)
    return clouds / clouds.amax((1, 2), keepdim=True)


@formula("pixelate")
def pixelate(images: Tensor, factor: float) -> Tensor:
    """Shrink with a box filter, width first and rounded to levels each time as Pillow does, and enlarge again."""
    values = images.permute(0, 3, 1, 2).double()
    for axis in (3, 2):
        side = values.shape[axis]
        box = torch.from_numpy(_box(side, max(1, int(side * factor)))).to(images.device)
        values = (values.movedim(axis, -1) @ box.T + 0.5).floor_().movedim(-1, axis)
    for axis, side in ((2, images.shape[1]), (3, images.shape[2])):
        small = values.shape[axis]
        indices = (2 * torch.arange(side, device=images.device) + 1) * small // (2 * side)
        values = values.index_select(axis, indices)
    return values.clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


@lru_cache(maxsize=64)
def _box(length: int, shorter: int) -> NDArray[np.float64]:
    """Return the box filter from one length to a shorter one: even weights of the pixels whose centres are inside."""
    ratio = length / shorter
    centres = (np.arange(shorter) + 0.5) * ratio
    distance = (np.arange(length) + 0.5 - centres[:, None]) / ratio
    inside = ((distance > -0.5) & (distance <= 0.5)).astype(np.float64)
    weights: NDArray[np.float64] = inside / inside.sum(1, keepdims=True)
    return weights


@formula("saturate")
def saturate(images: Tensor, factor: float, shift: float) -> Tensor:
    """Change the saturation and keep hue and value."""
    channels = planes_of(images, torch.float64)
    value, lowest = channels.amax(1, keepdim=True), channels.amin(1, keepdim=True)
    spread = value - lowest
    saturation = (factor * (spread / torch.where(value > 0, value, 1)) + shift).clamp_(0, 1)
    grey = spread == 0
    changed = value * (1 - saturation * (1 - (channels - lowest) / torch.where(grey, 1, spread)))
    red = torch.where(grey, value, changed[:, :1])  # grey has no hue; the reference treats it as red
    return images_of(torch.cat([red, changed[:, 1:]], 1))
