"""Move embeddings from one mean and covariance to another."""

from __future__ import annotations

import torch
from torch import Tensor

RIDGE = 1e-5  # on the diagonal of every covariance, and the smallest eigenvalue that is inverted


def regularised(covariance: Tensor) -> Tensor:
    """Return a covariance with a small ridge on its diagonal."""
    return covariance + RIDGE * torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)


def covariance_of(embeddings: Tensor, mean: Tensor) -> Tensor:
    """Return the regularised covariance of (embeddings, width) around their mean; that of a single one is the ridge."""
    centred = embeddings - mean
    return regularised(centred.T @ centred / max(len(embeddings) - 1, 1))


def square_root(covariance: Tensor, group_size: int | None = None) -> Tensor:
    """Return the symmetric square root; with groups of channels, of the blocks on the diagonal, and zeros elsewhere.

    >>> square_root(torch.tensor([[4.0, 1.0], [1.0, 9.0]]), group_size=1)
    tensor([[2., 0.],
            [0., 3.]])
    """
    groups = _groups(len(covariance), group_size)
    root: Tensor = torch.block_diag(*(_power(covariance[group, group], 0.5, smallest=0.0) for group in groups))
    return root


def align(
    embeddings: Tensor, mean: Tensor, covariance: Tensor, to_mean: Tensor, to_root: Tensor, group_size: int | None
) -> Tensor:
    """Return (X − μ) Σ^(−1/2) Σₛ^(1/2) + μₛ; with groups of channels, each by its own part of both covariances."""
    centred = embeddings - mean
    groups = [
        centred[:, group] @ _power(covariance[group, group], -0.5, smallest=RIDGE) @ to_root[group, group]
        for group in _groups(len(mean), group_size)
    ]
    return torch.cat(groups, dim=1) + to_mean


def _groups(width: int, size: int | None) -> list[slice]:
    """Return consecutive groups of channels; the last may be smaller."""
    return [slice(start, start + (size or width)) for start in range(0, width, size or width)]


def _power(matrix: Tensor, exponent: float, *, smallest: float) -> Tensor:
    """Return a power of a symmetric matrix whose eigenvalues are at least `smallest`."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    power: Tensor = (vectors * values.clamp(min=smallest) ** exponent) @ vectors.T
    return power
