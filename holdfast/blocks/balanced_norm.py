"""Balanced BN: average the statistics over classes, so that frequent and rare classes weigh the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer
from holdfast.blocks.sample_moments import sample_moments
from holdfast.state import modules_of


class BalancedStatistics(NormLayer):
    """Keeps statistics of each class and normalises with those of their even mixture (Su et al., AAAI 2024).

    Passes without labels predict with the stored statistics. A pass with labels (`given_labels`) updates the statistics
    first and normalises with the updated ones; gradients flow through the share of this batch. Each sample adds
    `class_momentum` to the step of its class, up to a step of 1. `agnostic_share` of the step is the mean over the
    classes present, and updates all classes alike.
    """

    class_mean: Tensor  # (classes, channels)
    class_var: Tensor
    mean: Tensor  # of the mixture, (channels,)
    var: Tensor

    def __init__(
        self, layer: BatchNormLayer, *, num_classes: int, class_momentum: float, agnostic_share: float = 0.0
    ) -> None:
        super().__init__(layer)
        self.class_momentum, self.agnostic_share = class_momentum, agnostic_share  # η, γ
        self.labels: Tensor | None = None
        self.register_buffer("class_mean", self.source_mean.repeat(num_classes, 1))
        self.register_buffer("class_var", self.source_var.repeat(num_classes, 1))
        self.register_buffer("mean", self.source_mean.clone())
        self.register_buffer("var", self.source_var.clone())

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...), after updating the statistics if the batch has labels."""
        if self.labels is None or self.paused:
            return self.normalise(features, self.mean, self.var)
        class_mean, class_var = self.moved(*sample_moments(features), self.labels)
        mean = class_mean.mean(0)
        between = (class_mean - mean).square().sum(0) / max(len(class_mean) - 1, 1)  # unbiased, as in the official code
        var = class_var.mean(0) + between
        finite = all_finite(mean + var)
        mean, var = if_finite(finite, mean, self.mean), if_finite(finite, var, self.var)
        self._buffers.update(  # without the checks of `setattr`, which take longer than the update
            class_mean=if_finite(finite, class_mean.detach(), self.class_mean),
            class_var=if_finite(finite, class_var.detach(), self.class_var),
            mean=mean.detach(),
            var=var.detach(),
        )
        return self.normalise(features, mean, var)

    def label(self, labels: Tensor | None) -> None:
        """Take the labels of the samples of the next passes, (batch,); None: they have none."""
        vars(self).update(labels=labels)

    def moved(self, sample_mean: Tensor, sample_var: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the class means and variances, updated by a batch of samples, (batch, channels)."""
        # As bincount does, of which a host on another device would wait for the largest label.
        counts = labels.new_zeros(len(self.class_mean)).scatter_add_(0, labels, torch.ones_like(labels))
        counts = counts.unsqueeze(1).to(sample_mean)
        step = (1 / counts.clamp_min(1)).clamp_max(self.class_momentum)  # the weights of a class never exceed 1
        away, square = grouped_sums(sample_mean, sample_var, labels, self.class_mean)
        shift = step * away  # δ
        gain, rate, agnostic = step * square - shift**2, step * counts, self.agnostic_share
        mean = self.class_mean + (1 - agnostic) * shift
        var = self.class_var + (1 - agnostic) * (gain - rate * self.class_var)
        if agnostic:
            each = agnostic / (counts > 0).sum()
            mean = mean + each * shift.sum(0)
            var = var + each * (gain.sum(0) - rate.sum() * var)  # of the variance after the class's own step
        return mean, var

    def normalise(self, features: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Normalise with statistics that may carry a gradient, which torch's own function would drop."""
        if not mean.requires_grad:
            return super().normalise(features, mean, var)
        # The fused kernel takes constant statistics. Their gradient goes through the affine arguments instead, whose
        # values are those of weight and bias.
        deviation = (var + self.eps).sqrt()
        constant = deviation.detach()
        weight = constant / deviation if self.weight is None else constant / deviation * self.weight
        bias = weight * (mean.detach() - mean) / constant
        bias = bias if self.bias is None else bias + self.bias
        return nn.functional.batch_norm(features, mean.detach(), var.detach(), weight, bias, False, 0.0, self.eps)

    def fixed_statistics(self, features: Tensor | None) -> tuple[Tensor, Tensor] | None:
        """Return the stored statistics."""
        return self.mean, self.var

    def extra_repr(self) -> str:
        """Show width, classes and momentum."""
        return f"{super().extra_repr()}, classes={len(self.class_mean)}, class_momentum={self.class_momentum}"


def grouped_sums(sample_mean: Tensor, sample_var: Tensor, groups: Tensor, group_mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ (m − μ) and Σ (v + (m − μ)²) over the samples of each group, about the group's own mean μ.

    >>> mean, var = torch.tensor([[1.0], [3.0], [7.0]]), torch.ones(3, 1)
    >>> away, square = grouped_sums(mean, var, torch.tensor([0, 0, 1]), torch.tensor([[1.0], [6.0], [0.0]]))
    >>> away.flatten().tolist(), square.flatten().tolist()
    ([2.0, 1.0, 0.0], [6.0, 2.0, 0.0])
    """
    away = sample_mean - group_mean[groups]
    empty = torch.zeros_like(group_mean)
    return empty.index_add(0, groups, away), empty.index_add(0, groups, sample_var + away**2)


@contextmanager
def given_labels(network: nn.Module, labels: Tensor) -> Iterator[None]:
    """Update the balanced layers of a network by the passes inside, whose samples have these (pseudo-)labels.

    >>> network = nn.Sequential(BalancedStatistics(nn.BatchNorm1d(1), num_classes=2, class_momentum=0.5))
    >>> with given_labels(network, torch.tensor([0])):
    ...     _ = network(torch.tensor([[4.0]]))
    >>> network[0].class_mean.flatten().tolist(), network[0].mean.tolist()
    ([2.0, 0.0], [1.0])
    """
    layers = [layer for layer in modules_of(network) if isinstance(layer, BalancedStatistics)]
    for layer in layers:
        layer.label(labels)
    try:
        yield
    finally:
        for layer in layers:
            layer.label(None)
