"""Balanced BN: average the statistics over classes, so that frequent and rare classes weigh the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer
from holdfast.blocks.sample_moments import sample_moments
from holdfast.state import modules_of


@dataclass(frozen=True)
class Groups:
    """The samples of a batch by group, such as their class, and how far each group moves towards them."""

    rows: Tensor  # of the groups in a table
    inverse: Tensor | None  # (batch,) of each sample among them; None: each is a group of its own, in their order
    step: Tensor  # (groups, 1), the weight of a sample
    rate: Tensor  # (groups, 1), that of all samples of a group

    @staticmethod
    def of(rows: Tensor, inverse: Tensor, counts: Tensor, momentum: float, like: Tensor, *, capped: bool) -> Groups:
        """Return the groups with these counts of samples; if capped, the weights of a group sum to at most 1."""
        counts = counts.unsqueeze(1).to(like)
        step = (1 / counts).clamp_max(momentum) if capped else torch.full_like(counts, momentum)
        rows, inverse = rows.to(like.device), inverse.to(like.device)
        own = len(rows) == len(inverse)
        return Groups(rows[inverse] if own else rows, None if own else inverse, step, step * counts)

    def changes(self, sample_mean: Tensor, sample_var: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
        """Return the change δ of the mean μ of each group, and what its variance gains: η Σ (v + (m − μ)²) − δ².

        >>> rows, inverse, step = torch.tensor([0, 1]), torch.tensor([0, 0, 1]), torch.tensor([[0.5], [1.0]])
        >>> means, variances = torch.tensor([[1.0], [3.0], [7.0]]), torch.ones(3, 1)
        >>> groups = Groups(rows, inverse, step, torch.ones(2, 1))
        >>> shift, gain = groups.changes(means, variances, torch.tensor([[1.0], [6.0]]))
        >>> shift.flatten().tolist(), gain.flatten().tolist()
        ([1.0, 1.0], [2.0, 1.0])
        """
        if self.inverse is None:
            away = sample_mean - mean
            square = torch.addcmul(sample_var, away, away)
        else:
            each = sample_mean - mean[self.inverse]
            empty = torch.zeros_like(mean)
            away = empty.index_add(0, self.inverse, each)
            square = empty.index_add(0, self.inverse, torch.addcmul(sample_var, each, each))
        shift = self.step * away
        return shift, torch.addcmul(self.step * square, shift, shift, value=-1)


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
        self.labelled: Groups | None = None
        self.register_buffer("class_mean", self.source_mean.repeat(num_classes, 1))
        self.register_buffer("class_var", self.source_var.repeat(num_classes, 1))
        self.register_buffer("mean", self.source_mean.clone())
        self.register_buffer("var", self.source_var.clone())

    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...), after updating the statistics if the batch has labels."""
        if self.labelled is None or self.paused:
            return self.normalise(features, self.mean, self.var)
        class_mean, class_var = self.moved(*sample_moments(features), self.labelled)
        mean = class_mean.mean(0)
        between = (class_mean - mean).square().sum(0)
        var = torch.add(class_var.mean(0), between, alpha=1 / max(len(class_mean) - 1, 1))  # unbiased, as officially
        # Without the checks of `setattr`, which take longer than the update.
        if mean.requires_grad:
            self._buffers.update(mean=mean.detach(), var=var.detach())
        else:
            self._buffers.update(mean=mean, var=var)
        return self.normalise(features, mean, var)

    def label(self, labelled: Groups | None) -> None:
        """Take the samples of the next passes by class; None: they have no labels."""
        vars(self).update(labelled=labelled)

    def moved(self, sample_mean: Tensor, sample_var: Tensor, labelled: Groups) -> tuple[Tensor, Tensor]:
        """Update the class means and variances by a batch of samples, (batch, channels), and return them."""
        rows, rate, agnostic = labelled.rows, labelled.rate, self.agnostic_share
        old_mean, old_var = self.class_mean[rows], self.class_var[rows]
        shift, gain = labelled.changes(sample_mean, sample_var, old_mean)
        finite = all_finite(gain)  # which is not where the shift is not: it contains its square
        if finite is not True:
            shift, gain = if_finite(finite, shift, torch.zeros_like(shift)), if_finite(finite, gain, rate * old_var)
        own_shift, own_gain = shift, torch.addcmul(gain, rate, old_var, value=-1)
        if agnostic:
            own_shift, own_gain = (1 - agnostic) * own_shift, (1 - agnostic) * own_gain
        # Into the tables, unless a gradient flows through them.
        add = Tensor.index_add if shift.requires_grad else Tensor.index_add_
        mean, var = add(self.class_mean, 0, rows, own_shift), add(self.class_var, 0, rows, own_gain)
        if agnostic:
            each = finite * (agnostic / len(rows))
            mean = mean + each * shift.sum(0)
            var = var + each * (gain.sum(0) - rate.sum() * var)  # of the variance after the class's own step
        if mean is not self.class_mean:
            self._buffers.update(class_mean=mean.detach(), class_var=var.detach())
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
    if layers:  # whose classes and momentum are the same
        first = layers[0]
        rows, inverse, counts = labels.cpu().unique(return_inverse=True, return_counts=True)
        labelled = Groups.of(rows, inverse, counts, first.class_momentum, first.class_mean, capped=True)
    for layer in layers:
        layer.label(labelled)
    try:
        yield
    finally:
        for layer in layers:
            layer.label(None)
