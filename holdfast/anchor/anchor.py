"""The anchor: source weights with the statistics of recent inputs, and class proportions of recent samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from holdfast.anchor.balance import Balance, latest
from holdfast.anchor.proportions import entropy_of, reweigh_by_evidence
from holdfast.blocks.norm import BatchNorm, pause
from holdfast.blocks.recent_norm import RecentStatistics, explained
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.models.classifier import Classifier
from holdfast.state import Stateful

__all__ = ["Anchor", "Opinion", "follow_inputs", "follows", "latest", "shift_of"]

LONGEST_MEMORY = 10  # windows
SURER = 2  # times as confident as the anchor is a source that judges in its place


@dataclass(frozen=True)
class Opinion:
    """What the anchor thinks of a batch."""

    plain: Tensor  # probabilities, (batch, classes), as if all classes were equally frequent
    recent: Tensor  # probabilities with class proportions of the last samples, this batch included, (samples, classes)
    shift: float  # how far the statistics of recent inputs are from those of the source
    explained: float = 0.0  # κ: how far other class proportions explain that, if the source's predictions are right

    @property
    def probabilities(self) -> Tensor:
        """Probabilities of this batch with the class proportions of the last samples, (batch, classes)."""
        return self.recent[-len(self.plain) :]

    def reweigh(self, probabilities: Tensor) -> Tensor:
        """Give another network's probabilities for this batch the same class proportions.

        >>> opinion = Opinion(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.8, 0.2]]), 0.0)
        >>> opinion.reweigh(torch.tensor([[0.5, 0.5]]))
        tensor([[0.8000, 0.2000]])
        """
        weighed = probabilities * self.probabilities / self.plain.clamp_min(torch.finfo(self.plain.dtype).tiny)
        return weighed / weighed.sum(1, keepdim=True).clamp_min(torch.finfo(weighed.dtype).tiny)

    def or_source(self, source: Tensor) -> Opinion:
        """Return this opinion, or the source's probabilities, (batch, classes), if they are twice as confident.

        Where all samples of a batch show one object, its statistics ruin the anchor too, and it knows: it is unsure.

        >>> unsure, sure = torch.tensor([[0.3, 0.4, 0.3]]), torch.tensor([[0.9, 0.1, 0.0]])
        >>> opinion = Opinion(unsure, unsure, 0.0)
        >>> opinion.or_source(sure).probabilities, opinion.or_source(unsure[:, [1, 0, 2]]).probabilities
        (tensor([[0.9000, 0.1000, 0.0000]]), tensor([[0.3000, 0.4000, 0.3000]]))
        """
        surer = source.amax(1).mean() > SURER * self.plain.amax(1).mean()  # the host need not know
        plain = torch.where(surer, source, self.plain)
        batch = torch.where(surer, source, self.probabilities)
        return replace(self, plain=plain, recent=torch.cat([self.recent[: -len(source)], batch]))

    def belief(self, predictions: Tensor) -> Tensor:
        """Return the probabilities that predicted classes, (batch,), are right."""
        return self.probabilities.gather(1, predictions[:, None])[:, 0]


class Anchor(Stateful):
    """Judges batches by a network that follows the statistics of its inputs (`follow_inputs`) and is never trained.

    Source statistics fail under a shift, and batch statistics fail when a batch holds few classes; the mean of the two
    classifies better than either. The statistics reach back further when the last `window` samples hold fewer classes,
    so that all classes are covered. Class proportions of the last `window` samples turn probabilities of a network
    that was trained on balanced classes into probabilities for this stream.
    """

    fitted_temperature: float | None
    stream_temperature: float | None
    memory_samples: int
    recent: Tensor | None

    def __init__(self, *, temperature: float = 1.75, window: int = 64, proportions: bool = True) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        if window < 1:
            raise ValueError(f"window must be at least 1 sample, got {window}")
        self.temperature, self.window, self.proportions = temperature, window, proportions
        self.add_state("fitted_temperature", None, kept=True)
        self.add_state("stream_temperature", None)  # estimated where nothing was fitted
        self.add_state("memory_samples", window)
        self.add_state("recent", None)  # probabilities for the last samples, (samples, classes)
        self.balance = Balance(window=2 * window)

    @property
    def now_temperature(self) -> float:
        """The fitted temperature if there is one, else the one estimated from the stream, else the given one."""
        return self.fitted_temperature or self.stream_temperature or self.temperature

    @torch.no_grad()
    def judge(
        self,
        network: nn.Module,
        inputs: Tensor,
        *,
        learn: bool = True,
        rescale: Callable[[Tensor], None] | None = None,
        source: Tensor | None = None,
    ) -> Opinion | None:
        """Return the opinion of a batch, or None if the network's logits are not finite.

        `rescale` is shown the logits of the batch before the temperature is used, and may change it. With `source`,
        the source's logits or probabilities, classes are balanced where that explains the shift of the statistics.
        """
        layers = [layer for layer in network.modules() if isinstance(layer, RecentStatistics)]
        parts = [part for layer in layers for part in (layer.recent, layer.balanced)]
        for part in parts:
            part.memory_samples = self.memory_samples
        pause(network, not learn)
        before = [(part.mean, part.var, part.samples) for part in parts]
        predicted, followed = self.balance.predicted, self.balance.followed
        weights, trust = None, 1.0 if source is None else self.balance.trust(source.shape[1])
        if source is not None and layers and learn:
            weights = self.balance.weigh(inputs, source.argmax(1), source.shape[1])
        for layer in layers:
            layer.weights, layer.trust = weights, trust
        try:
            logits = network(inputs)
        finally:
            for layer in layers:
                layer.weights = None
        if rescale is not None:
            rescale(logits)
        plain = self.scaled(logits)
        recent = latest(self.recent, plain, self.window)
        weighed = reweigh_by_evidence(recent) if self.proportions else recent
        if weights is not None:
            self.balance.follow(plain.argmax(1))
        share = plain.new_zeros(()) if source is None else explained_of(layers) * self.balance.trust(plain.shape[1])
        told = torch.isfinite(plain).all(), entropy_of(weighed.mean(0)), shift_of(layers), share
        finite, entropy, shift, explained = torch.stack([part.to(plain) for part in told]).tolist()  # one wait
        if not finite:
            for part, known in zip(parts, before, strict=True):
                part.mean, part.var, part.samples = known
            self.balance.predicted, self.balance.followed = predicted, followed
            return None
        if learn:
            self.recent = recent
            scarcity = min(weighed.shape) / math.exp(entropy)  # 1: as many classes as there can be
            self.memory_samples = round(self.window * min(max(1.0, scarcity**2), LONGEST_MEMORY))
        return Opinion(plain, weighed, shift, explained)

    def scaled(self, logits: Tensor) -> Tensor:
        """Return probabilities at the anchor's temperature, (batch, classes)."""
        return (logits.to(torch.promote_types(logits.dtype, torch.float32)) / self.now_temperature).softmax(1)


def follow_inputs(network: Classifier, *, source_share: float, window: int) -> None:
    """Let the BatchNorm layers of a network follow the statistics of its inputs; the source counts for `source_share`.

    Layers without stored statistics, and networks without BatchNorm, stay as they are (see `follows`).
    """
    if not 0 <= source_share <= 1:
        raise ValueError(f"source_share must be between 0 and 1, got {source_share}")

    def follower(layer: BatchNorm) -> nn.Module:
        if layer.running_mean is None:  # it always uses batch statistics
            return cast(nn.Module, layer)
        return RecentStatistics(layer, source_share=source_share, prior_samples=window)

    replace_batch_norm(network, follower)


def follows(network: nn.Module) -> bool:
    """Return whether a network has a layer that follows its inputs.

    Without one its errors under a shift are those of the source, which prefer a few classes; class proportions would
    reinforce them: on digits at severity 3 they cost a ViT 10 points, and a ResNet with GroupNorm 5.
    """
    return any(isinstance(layer, RecentStatistics) for layer in network.modules())


def shift_of(layers: list[RecentStatistics]) -> Tensor:
    """Return the Kullback-Leibler divergence of recent from source statistics, of an average channel, ().

    >>> shift_of([])
    tensor(0.)
    """
    divergences = [layer.shift() for layer in layers]
    return torch.stack(divergences).mean() if divergences else torch.zeros(())


def explained_of(layers: list[RecentStatistics]) -> Tensor:
    """Return how far other class proportions explain the divergence of all layers, ().

    >>> explained_of([])
    tensor(0.)
    """
    if not layers:
        return torch.zeros(())
    plain, balanced = zip(*(layer.divergences() for layer in layers), strict=True)
    return explained(torch.stack(plain).mean(), torch.stack(balanced).mean())
