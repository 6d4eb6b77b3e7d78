"""The anchor: source weights with the moments of recent inputs, and class proportions of recent samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from holdfast.anchor.proportions import agreed_proportions, entropy_of, proportions_by_evidence
from holdfast.anchor.sites import Reference, follow_inputs, refer, taps_of
from holdfast.blocks.tap import Following, Site, Tap, explain, shift_of
from holdfast.models.classifier import Classifier
from holdfast.state import Stateful

LONGEST_MEMORY = 10  # windows
SURER = 2  # times as confident as the anchor is a source that judges in its place


@dataclass(frozen=True)
class Opinion:
    """What the anchor thinks of a batch."""

    plain: Tensor  # probabilities, (batch, classes), as if all classes were equally frequent
    proportions: Tensor  # of classes among the other recent samples, for each sample, (batch, classes)
    recent: Tensor  # probabilities with these proportions, of the last samples, this batch included, (samples, classes)
    shift: float = 0.0  # divergence of recent moments from the source's, less what class proportions explain

    @property
    def probabilities(self) -> Tensor:
        """Probabilities of this batch with the class proportions of the last samples, (batch, classes)."""
        return self.recent[-len(self.plain) :]

    def reweigh(self, probabilities: Tensor) -> Tensor:
        """Give another network's probabilities for this batch the same class proportions.

        >>> opinion = Opinion(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.8, 0.2]]), torch.tensor([[0.8, 0.2]]))
        >>> opinion.reweigh(torch.tensor([[0.5, 0.5]]))
        tensor([[0.8000, 0.2000]])
        """
        return _normalised(probabilities * self.proportions)

    def or_source(self, source: Tensor) -> Opinion:
        """Return this opinion, or the source's probabilities, (batch, classes), if they are twice as confident.

        Where all samples of a batch show one object, its moments ruin the anchor too, and it knows: it is unsure.

        >>> unsure, sure = torch.tensor([[0.3, 0.4, 0.3]]), torch.tensor([[0.9, 0.1, 0.0]])
        >>> opinion = Opinion(unsure, torch.full((1, 3), 1 / 3), unsure)
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
    """Judges batches by a network that follows the moments of its inputs at its taps and is never trained.

    The moments reach back further when the last `window` samples hold fewer classes, so that all classes are covered.
    Class proportions of the last `window` samples turn probabilities of a network that was trained on balanced classes
    into probabilities for this stream.
    """

    fitted_temperature: float | None
    stream_temperature: float | None
    memory_samples: int
    recent: Tensor | None
    recent_source: Tensor | None

    def __init__(self, *, temperature: float = 1.0, window: int = 64, proportions: bool = True) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        if window < 1:
            raise ValueError(f"window must be at least 1 sample, got {window}")
        self.temperature, self.window, self.proportions = temperature, window, proportions
        self.following = Following(window=window)
        # Of the network; tuples, so that they are no modules of the anchor.
        self._taps: tuple[Tap, ...] = ()
        self._sites: tuple[Site, ...] = ()
        self.add_state("fitted_temperature", None, kept=True)
        self.add_state("stream_temperature", None)  # estimated where nothing was fitted
        self.add_state("memory_samples", window)
        self.add_state("recent", None)  # probabilities for the last samples, (samples, classes)
        self.add_state("recent_source", None)  # the same by the source, where it was asked

    def tap(self, network: Classifier, *, source_share: float) -> None:
        """Let a network follow its inputs; the source's moments count for `source_share`."""
        follow_inputs(network, self.following, source_share=source_share)
        self._taps = tuple(taps_of(network).values())
        self._sites = tuple(tap.site for tap in self._taps)

    def refer_to(self, network: Classifier, reference: Reference) -> None:
        """Give a tapped network the moments of the source's own data."""
        refer(network, self.following, reference)

    @property
    def follows(self) -> bool:
        """Whether the network has a tap with moments to follow from: given ones, or those that BatchNorm stores."""
        return bool([tap for tap in self._taps if tap.basis is not None])

    @property
    def is_referred(self) -> bool:
        """Whether the taps of the network know the moments of the source's own data."""
        return bool([site for site in self._sites if site.reference is not None])

    def reweigh_only_if(self, proportions: bool) -> None:
        """Say whether class proportions of recent samples count."""
        self.proportions = proportions

    def rescale(self, *, fitted: float | None = None, estimated: float | None = None) -> None:
        """Take a temperature that was fitted to held-out data, or one that was estimated from the stream."""
        self.fitted_temperature = fitted or self.fitted_temperature
        self.stream_temperature = estimated or self.stream_temperature

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
        source: Tensor | None = None,
        learn: bool = True,
        rescale: Callable[[Tensor], None] | None = None,
    ) -> Opinion | None:
        """Return the opinion of a batch, or None if the network's logits are not finite.

        `source` are the source's logits: its predicted classes explain a part of the moments, and class proportions
        are those on which source and anchor agree. `rescale` is shown the logits of the batch before the temperature is
        used, and may change it.
        """
        shown, before = show_something(inputs), self._followed()
        # Moments that are not finite are rare, and looking for them in every tap is slow.
        for checked in (rescale is not None, True):
            logits = self._follow(network, inputs, shown, source, learn=learn, checked=checked)
            if rescale is not None:
                rescale(logits)
            opinion, recent, recent_source = self._opinion_of(logits, source, shown)
            parts = opinion.plain.sum(), entropy_of(opinion.recent.mean(0)), shift_of(self._taps)
            total, entropy, shift = torch.stack([part.to(opinion.plain) for part in parts]).tolist()  # one wait
            if checked or not learn or math.isfinite(shift):
                break
            self._return_to(before)
        if not math.isfinite(total):
            self._return_to(before)
            return None
        if learn:
            self.recent, self.recent_source = recent, recent_source
            scarcity = min(opinion.recent.shape) / math.exp(entropy)  # 1: as many classes as there can be
            self.memory_samples = round(self.window * min(max(1.0, scarcity**2), LONGEST_MEMORY))
        return replace(opinion, shift=shift)

    def follow(self, network: nn.Module, inputs: Tensor, source: Tensor | None = None, *, learn: bool = True) -> Tensor:
        """Return the logits of a tapped network that follows a batch, unless the batch is not to be followed."""
        return self._follow(network, inputs, show_something(inputs), source, learn=learn, checked=True)

    def _follow(
        self, network: nn.Module, inputs: Tensor, shown: Tensor, source: Tensor | None, *, learn: bool, checked: bool
    ) -> Tensor:
        for tap in self._taps:
            if tap.paused is learn:
                tap.pause(not learn)
        if learn:
            predicted = None if source is None else source.softmax(1)
            self.following.count(shown.float(), self.memory_samples, predicted, checked=checked)
            explain(self._taps)
        logits: Tensor = network(inputs)
        return logits

    def view(self, logits: Tensor, source: Tensor, inputs: Tensor, *, learn: bool = True) -> Opinion:
        """Return the opinion of a batch by finite logits of another anchor's network, (batch, classes)."""
        opinion, recent, recent_source = self._opinion_of(logits, source, show_something(inputs))
        if learn:
            self.recent, self.recent_source = recent, recent_source
        return opinion

    def _opinion_of(
        self, logits: Tensor, source: Tensor | None, shown: Tensor
    ) -> tuple[Opinion, Tensor, Tensor | None]:
        """Return the opinion of a batch, and what is to be remembered of the last samples."""
        plain = self.scaled(logits)
        recent = self._latest(self.recent, plain, shown)
        recent_source = None if source is None else self._latest(self.recent_source, self.scaled(source), shown)
        proportions = recent.new_full((), 1 / recent.shape[1]).expand_as(recent)
        if self.proportions and recent_source is None:
            proportions = proportions_by_evidence(recent, bias=0)
        elif self.proportions and recent_source is not None:
            proportions = agreed_proportions(recent, recent_source, window=self.window)
        batch = len(plain)
        rows = plain if len(recent) == batch else torch.cat([recent[:-batch], plain])
        weighed = _normalised(rows * proportions)
        return Opinion(plain, proportions[-batch:], weighed), recent, recent_source

    def _latest(self, before: Tensor | None, now: Tensor, shown: Tensor) -> Tensor:
        """Return the last probabilities; inputs that show nothing, and values that are not finite, tell nothing."""
        total = now.sum(1)
        tells = shown & (total - total == 0)  # only of finite values
        return latest(before, now.where(tells[:, None], 1 / now.shape[1]), self.window)

    def _followed(self) -> list[tuple[Tensor | None, Tensor | None]]:
        return [(self.following.samples, self.following.mix), *[(site.mean, site.var) for site in self._sites]]

    def _return_to(self, before: list[tuple[Tensor | None, Tensor | None]]) -> None:
        self.following.return_to(*before[0])
        for site, (mean, var) in zip(self._sites, before[1:], strict=True):
            site.return_to(mean, var)

    def scaled(self, logits: Tensor) -> Tensor:
        """Return probabilities at the anchor's temperature, (batch, classes)."""
        return (logits.to(torch.promote_types(logits.dtype, torch.float32)) / self.now_temperature).softmax(1)


def show_something(inputs: Tensor) -> Tensor:
    """Return which inputs show something, (batch,): constant ones (blank images, silence) show no class.

    >>> show_something(torch.tensor([[0.2, 0.3], [0.5, 0.5]])), show_something(torch.tensor([[0.5]]))
    (tensor([ True, False]), tensor([True]))
    """
    flat = inputs.reshape(inputs.shape[0], -1)
    return flat.amax(1) > flat.amin(1) if flat.shape[1] > 1 else flat.new_ones(flat.shape[0], dtype=torch.bool)


def latest(before: Tensor | None, now: Tensor, window: int) -> Tensor:
    """Append a batch to earlier rows and return the last `window` of them, or the whole batch if that is more.

    >>> latest(torch.tensor([1, 2, 3]), torch.tensor([4]), 3), latest(torch.tensor([1]), torch.tensor([2, 3]), 1)
    (tensor([2, 3, 4]), tensor([2, 3]))
    """
    return now if before is None else torch.cat([before, now])[-max(window, len(now)) :]


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
