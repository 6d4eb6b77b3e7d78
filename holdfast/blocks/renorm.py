"""Test-time batch renormalisation: predict with moving statistics, and learn as with those of the batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer, batch_moments, needed


class RenormalisedStatistics(NormLayer):
    """Normalise with moving averages of the batches before; gradients are those of batch normalisation (DELTA).

    The averages are of mean and standard deviation. They start with the first batch, or with the source. A batch with
    one value per channel has no deviation and moves nothing.
    """

    mean: Tensor
    std: Tensor
    seen: Tensor

    def __init__(
        self, layer: BatchNormLayer, *, momentum: float = 0.95, start: Literal["batch", "source"] = "batch"
    ) -> None:
        super().__init__(layer)
        self.momentum = momentum
        self.register_buffer("mean", self.source_mean.clone())
        self.register_buffer("std", (self.source_var + self.eps).sqrt())
        self.register_buffer("seen", torch.tensor(start == "source", device=self.source_mean.device))

    @property
    def uses_batch(self) -> bool:
        """Whether predictions are normalised with statistics of their own batch: only the very first."""
        return not bool(self.seen)

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...): γ ((x − μ) / σ · r + d) + β with r = σ / D and d = (μ − M) / D."""
        if features.numel() == features.shape[1]:
            return self.normalise(features, *self.fixed_statistics(features))
        mean, var = batch_moments(features.detach(), unbiased=False)
        std = (var + self.eps).sqrt()
        known, known_std = torch.where(self.seen, self.mean, mean), torch.where(self.seen, self.std, std)
        ratio, shift = std / known_std, (mean - known) / known_std
        weight = ratio if self.weight is None else self.weight * ratio
        bias = shift if self.weight is None else self.weight * shift
        # Folded into weight and bias, r and d cost nothing, and the gradient is torch's own.
        folded = bias if self.bias is None else bias + self.bias
        normalised = F.batch_norm(features, None, None, weight, folded, True, 0.0, self.eps)
        if not self.paused:
            finite = all_finite(mean + std)
            self.mean.copy_(if_finite(finite, mean.lerp(known, self.momentum), self.mean))
            self.std.copy_(if_finite(finite, std.lerp(known_std, self.momentum), self.std))
            self.seen.copy_(if_finite(finite, torch.ones_like(self.seen), self.seen))
        return normalised

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the stored statistics, or before the first batch those of these features."""
        if (features is not None and features.numel() == features.shape[1]) or self.seen:
            return self.mean, self.std.square() - self.eps
        return batch_moments(needed(features), unbiased=False)
