"""Destructions keep the values of an input and its shape, and destroy their order."""

from __future__ import annotations

import pytest
import torch

from holdfast.blocks.destruction import DESTRUCTIONS, rearrange, shuffle_patches


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_patches_go_where_they_are_sent() -> None:
    images = torch.rand(2, 3, 8, 8, generator=generator())
    order = torch.arange(16).roll(1).expand(2, 16)
    moved = rearrange(images, order)
    assert torch.equal(moved[:, :, :2, 2:4], images[:, :, :2, :2])
    assert torch.equal(moved[:, :, :2, :2], images[:, :, 6:, 6:])


def test_each_image_has_its_own_permutation() -> None:
    image = torch.arange(64.0).view(1, 1, 8, 8)
    shuffled = shuffle_patches(image.repeat(2, 1, 1, 1), generator())
    assert not torch.equal(shuffled[0], shuffled[1])
    assert torch.equal(shuffled[0].flatten().sort().values, image.flatten())


@pytest.mark.parametrize("shape", [(2, 3, 10, 7), (2, 50), (2, 1, 50)])
@pytest.mark.parametrize("name", DESTRUCTIONS)
def test_any_shape_is_destroyed(name: str, shape: tuple[int, ...]) -> None:
    inputs = torch.rand(shape, generator=generator())
    destroyed = DESTRUCTIONS[name](inputs, generator())
    assert destroyed.shape == inputs.shape
    assert not torch.equal(destroyed, inputs)
