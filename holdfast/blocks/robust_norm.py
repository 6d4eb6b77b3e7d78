"""Running statistics that are updated in learning passes only, not when predicting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer, needed
from holdfast.blocks.sample_moments import sample_moments


class LearningLayer(NormLayer):
    """Predict with stored statistics, initially the source's; a learning pass updates them with `momentum`."""

    mean: Tensor
    var: Tensor

    def __init__(self, layer: BatchNormLayer, *, momentum: float) -> None:
        super().__init__(layer)
        self.learning = False
        self.momentum = momentum
        self.register_buffer("mean", self.source_mean.clone())
        self.register_buffer("var", self.source_var.clone())

    def learn(self, learning: bool) -> None:
        """Set whether the next passes update the statistics."""
        self.learning = learning

    @property
    def moves(self) -> bool:
        """Whether this pass updates the statistics."""
        return self.learning and not self.paused

    @torch.no_grad()
    def store(self, mean: Tensor, var: Tensor, share: float) -> None:
        """Move the stored statistics towards finite new ones."""
        finite = all_finite(mean + var)
        self.mean.copy_(if_finite(finite, self.mean.lerp(mean, share), self.mean))
        self.var.copy_(if_finite(finite, self.var.lerp(var, share), self.var))

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor] | None:
        """Return the stored statistics."""
        return self.mean, self.var

    def extra_repr(self) -> str:
        """Return the number of channels and the momentum."""
        return f"{super().extra_repr()}, momentum={self.momentum}"


class RunningStatistics(LearningLayer):
    """BatchNorm as in training: a learning pass normalises with the batch and stores its unbiased variance.

    A batch with one value per channel has no variance and is normalised with the stored statistics. With
    `predict_with_batch` every pass normalises with the batch.
    """

    def __init__(self, layer: BatchNormLayer, *, momentum: float, predict_with_batch: bool = False) -> None:
        super().__init__(layer, momentum=momentum)
        self.predict_with_batch = predict_with_batch

    @property
    def uses_batch(self) -> bool:
        """Whether predictions are normalised with statistics of their own batch."""
        return self.predict_with_batch

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        values = features.numel() // features.shape[1]
        if values == 1 or not (self.moves or self.predict_with_batch):
            return self.normalise(features, self.mean, self.var)
        mean, var = moments(features)
        if self.moves:
            self.store(mean, var * (values / (values - 1)), self.momentum)
        return normalise(features, mean, var, self.weight, self.bias, self.eps)

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the stored statistics, or those of the batch where every pass uses them."""
        if not self.predict_with_batch:
            return self.mean, self.var
        values = 0 if features is None else features.numel() // features.shape[1]
        return (self.mean, self.var) if values == 1 else moments(needed(features))


class RobustStatistics(LearningLayer):
    """Normalise with the updated moving average in a learning pass too, not with the batch (Yuan et al., CVPR 2023).

    The variance is biased, and gradients flow through the batch's share of both moments.
    """

    def __init__(self, layer: BatchNormLayer, *, momentum: float = 0.05) -> None:
        super().__init__(layer, momentum=momentum)

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...)."""
        if not self.moves:
            return self.normalise(features, self.mean, self.var)
        batch_mean, batch_var = moments(features)
        mean, var = self.mean.lerp(batch_mean, self.momentum), self.var.lerp(batch_var, self.momentum)
        self.store(mean, var, 1.0)
        return normalise(features, mean, var, self.weight, self.bias, self.eps)


def set_learning(model: nn.Module, learning: bool) -> None:
    """Set whether the next passes of a network update its statistics.

    >>> network = nn.Sequential(RobustStatistics(nn.BatchNorm1d(3)))
    >>> set_learning(network, True)
    >>> _ = network(torch.ones(4, 3))
    >>> network[0].mean
    tensor([0.0500, 0.0500, 0.0500])
    """
    for layer in model.modules():
        if isinstance(layer, LearningLayer):
            layer.learn(learning)


@contextmanager
def learning_pass(model: nn.Module) -> Iterator[None]:
    """Update the statistics of a network in every pass inside the `with` block."""
    set_learning(model, True)
    try:
        yield
    finally:
        set_learning(model, False)


def moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance per channel of (batch, channels, ...), differentiably.

    >>> moments(torch.tensor([[1.0], [3.0]]))
    (tensor([2.]), tensor([1.]))
    """
    return pool_moments(*sample_moments(features))


def pool_moments(sample_mean: Tensor, sample_var: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance per channel of a batch from those of its samples, (batch, channels)."""
    mean = sample_mean.mean(0)
    return mean, (sample_var + (sample_mean - mean).square()).mean(0)


def normalise(
    features: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Normalise (batch, channels, ...) with differentiable statistics, which torch treats as constants."""
    if mean.requires_grad:
        # Fold the statistics into weight and bias, through which F.batch_norm does pass gradients.
        scale = (var + eps).rsqrt() if weight is None else weight * (var + eps).rsqrt()
        shift = (mean.detach() - mean) * scale
        bias = shift if bias is None else bias + shift
        mean, var = mean.detach(), var.detach()
        weight = scale * (var + eps).sqrt()
    return F.batch_norm(features, mean, var, weight, bias, False, 0.0, eps)
