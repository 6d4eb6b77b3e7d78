"""Destroy the shape of the object in an input, but not its colours or spectrum; a destruction is a view."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.blocks.views import View

GRID = 4  # patches along each side


def shuffle_patches(inputs: Tensor, generator: Generator) -> Tensor:
    """Shuffle the 4 × 4 patches of each image by its own permutation; of audio, 16 segments."""
    draws = torch.rand(len(inputs), GRID**2, generator=generator)
    return rearrange(inputs, draws.argsort(-1).to(inputs.device))


def rearrange(inputs: Tensor, order: Tensor) -> Tensor:
    """Put patch `order[i, q]` of input i where its patch q was, (batch, 16), row by row.

    An image whose side is no multiple of 4 is resized to one, and back; the remainder of an audio clip stays in place.

    >>> image = torch.arange(16.0).view(1, 1, 4, 4)
    >>> rearrange(image, torch.arange(15, -1, -1)[None]).flatten().tolist() == list(range(15, -1, -1))
    True
    """
    if inputs.dim() != 4:
        length = inputs.shape[-1] // GRID**2 * GRID**2
        parts = inputs[..., :length].unflatten(-1, (GRID**2, -1)).movedim(-2, 1)  # (batch, segments, ..., samples)
        moved = parts[torch.arange(len(inputs), device=inputs.device)[:, None], order].movedim(1, -2).flatten(-2)
        return torch.cat([moved, inputs[..., length:]], dim=-1)
    sides = inputs.shape[-2:]
    whole = [max(1, side // GRID) * GRID for side in sides]
    fits = list(sides) == whole
    images = inputs if fits else F.interpolate(inputs, whole, mode="bilinear", antialias=True)
    parts = images.unflatten(3, (GRID, -1)).unflatten(2, (GRID, -1))  # (batch, channels, rows, high, columns, wide)
    parts = parts.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    moved = parts[torch.arange(len(inputs), device=inputs.device)[:, None], order]
    moved = moved.unflatten(1, (GRID, GRID)).permute(0, 3, 1, 4, 2, 5).reshape(images.shape)
    return moved if fits else F.interpolate(moved, sides, mode="bilinear", antialias=True)


def occlude(inputs: Tensor, _generator: Generator) -> Tensor:
    """Cover the middle half of each side (the middle half of a clip) with the mean of each channel.

    >>> int((occlude(torch.arange(64.0).view(1, 1, 8, 8), torch.Generator()) == 31.5).sum())
    16
    """
    axes = (-2, -1) if inputs.dim() == 4 else (-1,)
    middle = [torch.arange(inputs.shape[axis]).sub_(inputs.shape[axis] // 4) for axis in axes]
    inside = [(index >= 0) & (index < len(index) // 2) for index in middle]
    covered = inside[0] if len(axes) == 1 else inside[0][:, None] & inside[1]
    return torch.where(covered.to(inputs.device), inputs.mean(axes, keepdim=True), inputs)


def shuffle_pixels(inputs: Tensor, generator: Generator) -> Tensor:
    """Shuffle the pixels (or audio samples) of all inputs by one permutation.

    >>> inputs = torch.arange(6.0).view(1, 6)
    >>> shuffle_pixels(inputs, torch.Generator().manual_seed(0)).sort().values.equal(inputs)
    True
    """
    axes = 2 if inputs.dim() == 4 else 1
    order = torch.randperm(math.prod(inputs.shape[-axes:]), generator=generator).to(inputs.device)
    return inputs.flatten(-axes)[..., order].view_as(inputs)


DESTRUCTIONS: dict[str, View] = {"patch": shuffle_patches, "occlusion": occlude, "pixel": shuffle_pixels}
