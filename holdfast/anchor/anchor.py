"""The anchor: source weights with the statistics of recent inputs, and class proportions of recent samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from holdfast.anchor.balance import Balance, latest, show_something
from holdfast.anchor.proportions import entropy_of, reweigh_by_evidence
from holdfast.blocks.norm import BatchNorm, pause
from holdfast.blocks.recent_norm import RecentStatistics
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.models.classifier import Classifier
from holdfast.state import Stateful

__all__ = ["Anchor", "Opinion", "follow_inputs", "follows", "latest", "shift_of"]

LONGEST_MEMORY = 10  # windows
SURER = 2  # times as confident as the anchor is a source that judges in its place
MORE_CONFIDENT = 1.05, 1.1  # times as confident as the anchor: no reason to prefer the source, every reason


@dataclass(frozen=True)
class Opinion:
    """What the anchor thinks of a batch."""

    plain: Tensor  # probabilities, (batch, classes), as if all classes were equally frequent
    recent: Tensor  # probabilities with class proportions of the last samples, this batch included, (samples, classes)
    shift: float  # how far the statistics of recent inputs are from those of the source
    preference: float = 0.0  # ϱ: how far the source is to be preferred, for it is surer and predicts the same classes

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
    confidences: Tensor | None

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
        self.add_state("confidences", None)  # of the source and of the anchor in the last samples, (samples, 2)
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
        the source's logits, classes are balanced where that explains the shift of the statistics, and the opinion says
        how far the source is to be preferred.
        """
        layers = [layer for layer in network.modules() if isinstance(layer, RecentStatistics)]
        parts = [part for layer in layers for part in (layer.recent, layer.balanced)]
        for part in parts:
            part.memory_samples = self.memory_samples
        pause(network, not learn)
        before = [(part.mean, part.var, part.samples) for part in parts]
        predicted, followed = self.balance.predicted, self.balance.followed
        shown = show_something(inputs)
        weights, trust = None, 1.0 if source is None else self.balance.trust(source.shape[1])
        if source is not None and layers and learn:
            weights = self.balance.weigh(source.argmax(1), shown, source.shape[1])
        for layer in layers:
            layer.weights, layer.trust = weights, trust
        try:
            logits = network(inputs)
        finally:
            for layer in layers:
                layer.weights = None
        if rescale is not None:
            rescale(logits)
        opinion, recent = self._opinion_of(logits, shown)
        plain, weighed = opinion.plain, opinion.recent
        if weights is not None:
            self.balance.follow(plain.argmax(1), shown)
        confidences, preference = self._preferring(opinion, source, shown)
        told = torch.isfinite(plain).all(), entropy_of(weighed.mean(0)), shift_of(layers), preference
        finite, entropy, shift, preferred = torch.stack([part.to(plain) for part in told]).tolist()  # one wait
        if not finite:
            for part, known in zip(parts, before, strict=True):
                part.mean, part.var, part.samples = known
            self.balance.predicted, self.balance.followed = predicted, followed
            return None
        if learn:
            self.recent, self.confidences = recent, confidences
            scarcity = min(weighed.shape) / math.exp(entropy)  # 1: as many classes as there can be
            self.memory_samples = round(self.window * min(max(1.0, scarcity**2), LONGEST_MEMORY))
        return replace(opinion, shift=shift, preference=preferred)

    def view(self, logits: Tensor, inputs: Tensor, *, learn: bool = True) -> Opinion:
        """Return the opinion of a batch by finite logits of another anchor's network, (batch, classes)."""
        opinion, recent = self._opinion_of(logits, show_something(inputs))
        if learn:
            self.recent = recent
        return opinion

    def _opinion_of(self, logits: Tensor, shown: Tensor) -> tuple[Opinion, Tensor]:
        """Return the opinion of a batch, and what is to be remembered of the last samples."""
        plain = self.scaled(logits)
        recent = latest(self.recent, plain.where(shown[:, None], 1 / plain.shape[1]), self.window)
        weighed = reweigh_by_evidence(recent) if self.proportions else recent
        weighed = torch.cat([weighed[: -len(plain)], seen_as(plain, weighed[-len(plain) :], shown)])
        return Opinion(plain, weighed, 0.0), recent

    def _preferring(self, opinion: Opinion, source: Tensor | None, shown: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return the confidences of the last samples, and how far the source is to be preferred for them."""
        if source is None:
            return self.confidences, opinion.plain.new_zeros(())
        both = torch.stack([opinion.reweigh(self.scaled(source)).amax(1), opinion.probabilities.amax(1)], 1)
        counts = shown & torch.isfinite(both).all(1)
        confidences = latest(self.confidences, both.where(counts[:, None], 0.0), self.window)
        return confidences, surer(confidences) * self.balance.agreement(source.shape[1])

    def scaled(self, logits: Tensor) -> Tensor:
        """Return probabilities at the anchor's temperature, (batch, classes)."""
        return (logits.to(torch.promote_types(logits.dtype, torch.float32)) / self.now_temperature).softmax(1)


def seen_as(plain: Tensor, weighed: Tensor, shown: Tensor) -> Tensor:
    """Return the reweighed probabilities of a batch; inputs that show nothing told nothing of class proportions.

    Where they count as equally probable for every class, `weighed` are the proportions themselves, (batch, classes).

    >>> seen_as(torch.tensor([[0.2, 0.8]]), torch.tensor([[0.8, 0.2]]), torch.tensor([False]))
    tensor([[0.5000, 0.5000]])
    """
    joint = plain * weighed
    return weighed.where(shown[:, None], joint / joint.sum(1, keepdim=True).clamp_min(torch.finfo(joint.dtype).tiny))


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


def surer(confidences: Tensor) -> Tensor:
    """Return how much surer the source is than the anchor, between 0 and 1, (), from confidences (samples, 2).

    Statistics of few classes, or of another range, spoil the anchor's features, and it becomes unsure; a shift of the
    inputs spoils those of the source.

    >>> [round(float(surer(torch.tensor([[source, 0.8]]))), 2) for source in (0.7, 0.86, 0.9)]
    [0.0, 0.5, 1.0]
    """
    source, anchor = confidences.sum(0)
    not_yet, fully = MORE_CONFIDENT
    ratio: Tensor = source / anchor.clamp_min(torch.finfo(anchor.dtype).tiny)
    return ((ratio - not_yet) / (fully - not_yet)).clamp(0, 1)
