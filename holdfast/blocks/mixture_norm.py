"""The normalisation layer of UnMIX-TNS: a mixture of several statistics, updated by the samples that resemble them."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.blocks.finite import all_finite, if_finite
from holdfast.blocks.norm import BatchNormLayer, NormLayer
from holdfast.blocks.sample_moments import sample_moments


class MixtureStatistics(NormLayer):
    """Normalise each sample with a mixture of components, each interpolated towards the sample by its fit.

    The fit is a softmax over cosine similarities of means (Tomar et al., ICLR 2024). Components are drawn around the
    source statistics, with `spread_share` of its variance between them. A batch is normalised before it updates the
    components. The mean of the drawn components is off the source mean by a random 0.7 / √`components` deviations;
    with `centred`, it is the source mean.
    """

    means: Tensor  # (components, channels)
    vars: Tensor

    def __init__(
        self,
        layer: BatchNormLayer,
        *,
        generator: Generator,
        components: int = 16,
        spread_share: float = 0.5,
        temperature: float = 0.07,
        full_batch_size: int = 64,
        centred: bool = False,
    ) -> None:
        super().__init__(layer)
        self.temperature, self.full_batch_size = temperature, full_batch_size
        self.momentum = 0.1 if layer.momentum is None else layer.momentum
        share = spread_share if components > 1 else 0.0
        # Drawn in single precision for every dtype of the network, so that a seed gives the same draw.
        noise = torch.randn(components, len(self.source_mean), generator=generator).to(self.source_mean)
        noise = noise - noise.mean(0) if centred else noise
        width = math.sqrt(share * components / max(1, components - 1)) * self.source_var.sqrt()
        self.register_buffer("means", self.source_mean + width * noise)
        self.register_buffer("vars", ((1 - share) * self.source_var).repeat(components, 1))

    @torch.no_grad()
    def adapted(self, features: Tensor) -> Tensor:
        """Normalise (batch, channels, ...); maps of a single value, which have no variance, with source statistics."""
        if features.numel() == features.shape[0] * features.shape[1]:
            return self.normalise(features, self.source_mean, self.source_var)
        mean, var = sample_moments(features)
        fit = F.linear(F.normalize(mean, dim=1), F.normalize(self.means, dim=1)).div_(self.temperature).softmax(1)
        normalised = self.normalise_each(features, *self.mixed(mean, var, fit))
        if not self.paused:
            self.learn(mean, var, fit)
        return normalised

    def fixed_statistics(self, features: Tensor | None) -> None:
        """Return None: each sample is normalised by itself."""
        return

    def mixed(self, mean: Tensor, var: Tensor, fit: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the mixture for each sample, (batch, channels).

        With a fit of p a component is (1 − p) μ + p m and (1 − p) σ² + p v. Averages over the components are matrix
        products, so no tensor of size batch × components × channels is allocated.
        """
        count = len(self.means)
        centre = self.means.mean(0)  # moments are taken about it to avoid cancellation
        means, mean = self.means - centre, mean - centre
        pull = fit @ means
        mixed_mean = (mean - pull) / count
        within = self.vars.mean(0) + (var - fit @ self.vars) / count
        square = means**2
        between = (fit**2 - 2 * fit) @ square + 2 * mean * (pull - fit**2 @ means)
        between += mean**2 * (fit**2).sum(1, keepdim=True)
        second = square.mean(0) + between / count
        return mixed_mean + centre, within + (second - mixed_mean**2).clamp_min_(0)

    def learn(self, mean: Tensor, var: Tensor, fit: Tensor) -> None:
        """Move each component towards the samples that fit it, unless the result is not finite."""
        # Several small batches together move a component as far as one full batch: 1 − (1 − m)^(B / B_max).
        momentum = 1 - (1 - self.momentum) ** (len(mean) / self.full_batch_size)
        rate, weight = momentum / len(mean), fit.sum(0).unsqueeze(1)
        means = self.means + rate * (fit.T @ mean - weight * self.means)
        vars_ = self.vars + rate * (fit.T @ var - weight * self.vars)
        finite = all_finite(means + vars_)
        self.means, self.vars = if_finite(finite, means, self.means), if_finite(finite, vars_, self.vars)

    def extra_repr(self) -> str:
        """Return the number of channels and components."""
        return f"{super().extra_repr()}, components={len(self.means)}"
