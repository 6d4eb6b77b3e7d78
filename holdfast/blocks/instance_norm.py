"""Instance-aware normalisation: outlying samples are normalised with their own statistics."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.blocks.norm import BatchNormLayer
from holdfast.blocks.robust_norm import LearningLayer, normalise, pool_moments
from holdfast.blocks.sample_moments import sample_moments


class InstanceAwareStatistics(LearningLayer):
    """Correct the statistics for samples that deviate beyond chance: IABN (Gong et al., NeurIPS 2022).

    The expected statistics are the stored ones, or in a learning pass those of the batch, with unbiased variance.
    Deviations of a sample's statistics within `standard_errors` are ignored: an infinite value is BatchNorm, 0 is
    instance normalisation. Samples with a single position are not corrected.
    """

    def __init__(self, layer: BatchNormLayer, *, momentum: float = 0.01, standard_errors: float = 4.0) -> None:
        super().__init__(layer, momentum=momentum)
        self.standard_errors = standard_errors  # k

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        batch, channels = features.shape[:2]
        positions = features.numel() // (batch * channels)  # L
        own_mean, own_var = sample_moments(features)
        mean, var = self._expected(own_mean, own_var, positions)
        mean, var = self._correct(mean, var, own_mean, own_var, positions)
        flat = features.reshape(1, batch * channels, -1)  # each channel of each sample is normalised separately
        weight, bias = (None if values is None else values.repeat(batch) for values in (self.weight, self.bias))
        return normalise(flat, mean.flatten(), var.flatten(), weight, bias, self.eps).view_as(features)

    def fixed_statistics(self, features: Tensor | None) -> None:
        """Return None: each sample is normalised by itself."""
        return

    def _expected(self, own_mean: Tensor, own_var: Tensor, positions: int) -> tuple[Tensor, Tensor]:
        """Return μ̄ and σ̄², (channels,): stored, or pooled over the samples."""
        values = len(own_mean) * positions
        if not self.moves or values == 1:
            return self.mean, self.var
        mean, var = pool_moments(own_mean, own_var)
        var = var * (values / (values - 1))
        self.store(mean, var, self.momentum)
        return mean, var

    def _correct(
        self, mean: Tensor, var: Tensor, own_mean: Tensor, own_var: Tensor, positions: int
    ) -> tuple[Tensor, Tensor]:
        """Return μ′ and σ′² for each sample, (batch, channels)."""
        if positions == 1:
            return mean.expand_as(own_mean), var.expand_as(own_var)
        own_var = own_var * (positions / (positions - 1))
        mean_error = ((var + self.eps) / positions).sqrt()
        var_error = (var + self.eps) * math.sqrt(2 / (positions - 1))
        return (
            mean + _beyond(own_mean - mean, self.standard_errors * mean_error),
            F.relu(var + _beyond(own_var - var, self.standard_errors * var_error)),
        )


def _beyond(difference: Tensor, limit: Tensor) -> Tensor:
    """Return ψ, the signed part of a difference beyond a limit; 0 within it."""
    return difference - torch.clamp(difference, -limit, limit)
