"""PEA: move the embeddings behind every block to the statistics of the source, most where they are furthest away."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from holdfast.blocks.losses import entropy
from holdfast.blocks.source_moments import Embedded, SourceMoments
from holdfast.blocks.views import VIEWS
from holdfast.blocks.whitening import align, covariance_of, square_root
from holdfast.methods._base import METHODS, Method, PredictOnly
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import changing
from holdfast.options.ranges import Count, NotNegative, Share
from holdfast.randomness import seed_for
from holdfast.records import Reset, SetupWarning, Update

SourceStatistics = Literal["official", "exact"]

LEAST_WEIGHT = 1e-3  # a block with less is left alone
LEAST_DRIFT = 1e-6  # of tokens: below it no batch is a spike
CLASS_TOKENS = ("cls_token", "class_token")  # names of the parameter in the networks of timm, torchvision and others
_VIEWS = ("centre_crop", "flip")
_RESNET = {"spike_ratio": 2.5, "group_size": 32, "views": _VIEWS, "views_together": True}


@dataclass(frozen=True)
class _Layout:
    """Where the embeddings are in the output of a block."""

    axis: int  # of the channels
    tokens: bool  # else pixels

    def embeddings(self, output: Tensor) -> Tensor:
        """Return one row for each token or pixel of the batch, in single precision at least."""
        rows = output.movedim(self.axis, -1).flatten(0, -2)
        return rows.to(torch.promote_types(rows.dtype, torch.float32))

    def output(self, embeddings: Tensor, like: Tensor) -> Tensor:
        """Return rows as an output of a block again."""
        reshaped = embeddings.to(like.dtype).view(like.movedim(self.axis, -1).shape).movedim(-1, self.axis)
        return reshaped.contiguous() if like.is_contiguous() else reshaped


@METHODS.register("pea")
class Pea(Method):
    """Move the embeddings behind every block to the mean and covariance of the source, most where the shift is largest.

    Embeddings are the tokens of a transformer or the pixels of a convolutional network. A first pass measures how far
    their mean and variance behind each block are from those of the source: the furthest block gets the weight 1, the
    nearest one 0. In a second pass the embeddings are whitened with recent statistics, coloured with those of the
    source, and blended with the originals by the weight. Recent statistics are replaced when they jump, and dropped
    when the entropy of the predictions rises by more than `max_entropy_rise`. A network with fewer than two blocks is
    left as it is.

    `views` are further views of the inputs whose logits are averaged. The authors use `("centre_crop", "flip")`, as do
    the presets; for images that must not be mirrored, such as digits, and by default there are none.
    `source_statistics` are those of the official code, which depend on the size and order of the source batches:
    variances of tokens are too large, and covariances leave out differences between batches, by a few per cent.
    "exact" are those of all source embeddings together.
    """

    citation = "Ma et al., ICLR 2026"
    needs_source = True
    needs_norm = False
    predicts_jointly = True  # the weights are those of the batch
    passes = "2 forward; 6 with the two published views"
    keeps = "mean and covariance of the embeddings behind every block, of the source and of recent batches"
    predicts = "after"
    use_when = "a few hundred unlabelled source inputs are available, and no gradient: for any kind of normalisation"
    fails_when = (
        "domains change often: the published momentum of 0.02 follows slowly; or inputs are clean: the block that "
        "is furthest away is aligned all the same"
    )
    meanings: ClassVar = {
        "statistics_momentum": "share of a new batch in the recent statistics (m)",
        "average_momentum": "share of a new batch in the averages of drift and entropy (α)",
        "spike_ratio": "statistics are replaced when their change is this many times its average (γ)",
        "max_entropy_rise": "recent statistics are dropped when the entropy is above its average by more (θ)",
        "group_size": "number of channels that are whitened together; None: all",
        "views": "of the inputs, besides themselves: centre_crop, flip, flipped_crop, or another view by name",
        "views_together": "whether all views are one batch, with one update, or one after the other",
        "class_token": "whether weights are measured on the first token alone; None: if the network has a class token",
        "source_statistics": "official: with the slips of the authors' code; or exact",
    }
    presets: ClassVar = {
        "cifar100-c": {**_RESNET, "max_entropy_rise": 0.5},
        "cifar100-c-layer": {"views": _VIEWS},  # ViT-B
        "imagenet-c": _RESNET,
        "imagenet-c-layer": {"views": _VIEWS},
    }
    source_means: dict[str, Tensor]
    source_vars: dict[str, Tensor]
    source_roots: dict[str, Tensor]
    means: dict[str, Tensor]
    covariances: dict[str, Tensor]
    drifts: dict[str, Tensor]
    spikes: Tensor
    mean_entropy: float | None

    def __init__(
        self,
        model: Classifier,
        *,
        statistics_momentum: Share = 0.02,
        average_momentum: Share = 0.2,
        spike_ratio: NotNegative = 4.0,
        max_entropy_rise: float = 1.0,
        group_size: Count | None = None,
        views: Sequence[str] = (),
        views_together: bool = False,
        class_token: bool | None = None,
        source_statistics: SourceStatistics = "official",
        seed: int = 0,
    ) -> None:
        self.statistics_momentum, self.average_momentum = statistics_momentum, average_momentum  # m, α
        self.spike_ratio, self.max_entropy_rise = spike_ratio, max_entropy_rise  # γ, θ
        self.group_size, self.views_together, self.class_token = group_size, views_together, class_token
        self.views, self.source_statistics = tuple(views), source_statistics
        # These views are for images; presets are chosen by the number of classes, also of networks for audio.
        self._views = [VIEWS[name] for name in self.views] if model.input_spec.kind == "image" else []
        super().__init__(model, seed=seed)
        for name in ("source_means", "source_vars", "source_roots"):
            self.add_state(name, {}, kept=True)
        for name in ("means", "covariances", "drifts"):  # μ, Σ and d̄, by block
            self.add_state(name, {})
        self.add_state("spikes", torch.zeros((), dtype=torch.int64, device=model.device))
        self.add_state("mean_entropy", None)  # ē
        self.weights: dict[str, float] = {}  # w of the newest prediction, by block

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Find the blocks; train nothing."""
        self.layouts = _layouts(model)
        if len(self.layouts) < 2:
            warnings.warn(
                f"{len(self.layouts)} blocks were found in {type(model.module).__name__}, and 'pea' compares several: "
                "it will predict as the source does; choose a method for any network, such as 'neo'",
                SetupWarning,
                stacklevel=4,
            )
        names = (name.rpartition(".")[2] for name, _ in model.module.named_parameters())
        self.reads_class_token = (
            any(name in CLASS_TOKENS for name in names) if self.class_token is None else self.class_token
        )
        return []

    @torch.no_grad()
    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Compute mean, variance and covariance behind every block."""
        sums: dict[str, SourceMoments] = {}

        def collect(name: str, embeddings: Tensor) -> None:
            if name in sums:
                sums[name].add(embeddings)
            else:
                sums[name] = SourceMoments(embeddings)

        seen = 0
        for inputs in batches:
            self._read(inputs, collect)
            seen += len(inputs)
        if not seen:
            raise ValueError("source holds no batch; pass source=[inputs, …] with unlabelled source inputs")
        moments = {name: self._moments(name, own) for name, own in sums.items()}
        self.source_means = {name: own.mean for name, own in moments.items()}
        self.source_vars = {name: own.var for name, own in moments.items()}
        self.source_roots = {name: square_root(own.covariance, self.group_size) for name, own in moments.items()}

    def _moments(self, name: str, sums: SourceMoments) -> Embedded:
        if self.source_statistics == "exact":
            return sums.exact()
        return sums.of_tokens() if self.layouts[name].tokens else sums.of_pixels()

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the mean of the views' logits, from a second pass in which each block's embeddings are aligned."""
        generator = Generator().manual_seed(seed_for(self.seed, "views", self.batches))
        views = [inputs, *(view(inputs, generator) for view in self._views)]
        self.weights = self.measured_weights(torch.cat(views))
        with self._aligning(observe=not self.paused):
            passes = [torch.cat(views)] if self.views_together and len(views) > 1 else views
            logits = torch.cat([self.model(part) for part in passes])
        return logits.view(len(views), len(inputs), -1).mean(0)

    def measured_weights(self, inputs: Tensor) -> dict[str, float]:
        """Return the weight of each block, from a plain pass: its distance to the source, scaled to [0, 1]."""
        distances: dict[str, Tensor] = {}

        def measure(name: str, embeddings: Tensor) -> None:
            if self.reads_class_token and self.layouts[name].tokens:
                embeddings = embeddings.unflatten(0, (len(inputs), -1))[:, 0]
            # The variance of a single class token is taken for 0; the official code has NaN, and aligns nothing.
            var, mean = torch.var_mean(embeddings, 0, correction=int(len(embeddings) > 1))
            distances[name] = (self.source_means[name] - mean).norm() + (self.source_vars[name] - var).norm()

        if len(self.source_means) < 2:
            return {}
        self._read(inputs, measure)
        scores = torch.stack(list(distances.values()))
        least, most = scores.aminmax()
        weights = torch.where(most > least, (scores - least) / (most - least), 0 * scores)
        return dict(zip(distances, weights.tolist(), strict=True))  # the host waits once

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Drop the recent statistics if the entropy of this batch's predictions is far above its average."""
        super().adapt(inputs, logits)
        now = float(entropy(self.predict(inputs) if logits is None else logits).mean())
        before, reason = self.mean_entropy, None
        if before is not None and now > before + self.max_entropy_rise:
            self.means, self.covariances, self.drifts, before = {}, {}, {}, None
            reason = f"the entropy rose by more than {self.max_entropy_rise:g}"
        self.mean_entropy = (
            now if before is None else (1 - self.average_momentum) * before + self.average_momentum * now
        )
        return Update(events=() if reason is None else (Reset(reason),))

    def predictor_head(self) -> AbstractContextManager[None]:
        """Align the embeddings as in the newest prediction while the context is open."""
        return self._aligning(observe=False)

    def gauges(self) -> Mapping[str, float]:
        """Return how often statistics were replaced, counted by block, and the average entropy."""
        entropies = {} if self.mean_entropy is None else {"mean_entropy": self.mean_entropy}
        return {"spikes": float(self.spikes), **entropies}

    def export(self) -> nn.Module:
        """Return a module that aligns with the statistics found so far."""
        return PredictOnly(self)

    def _read(self, inputs: Tensor, read: Callable[[str, Tensor], None]) -> None:
        """Run the plain network and pass on the embeddings behind each block."""

        def reading(name: str, output: Tensor) -> Tensor:
            with _full_precision(output):
                read(name, self.layouts[name].embeddings(output))
            return output

        with changing(self.model.module, {name: partial(reading, name) for name in self.layouts}):
            self.model(inputs)

    def _aligning(self, *, observe: bool) -> AbstractContextManager[None]:
        """Align the output of every block with enough weight while the context is open."""
        chosen = [name for name, weight in self.weights.items() if weight >= LEAST_WEIGHT]
        return changing(self.model.module, {name: partial(self._align, name, observe=observe) for name in chosen})

    def _align(self, name: str, output: Tensor, *, observe: bool) -> Tensor:
        """Return X + w (Y − X) for the output X of a block, where Y has the statistics of the source."""
        layout = self.layouts[name]
        with _full_precision(output):
            embeddings = layout.embeddings(output)
            if observe:
                self._observe(name, embeddings)
            if name not in self.means:  # paused before the first batch
                return output
            aligned = align(
                embeddings,
                self.means[name],
                self.covariances[name],
                self.source_means[name],
                self.source_roots[name],
                self.group_size,
            )
            return layout.output(embeddings.lerp(aligned, self.weights[name]), output)

    def _observe(self, name: str, embeddings: Tensor) -> None:
        """Update the recent statistics of a block, or replace them if they have jumped."""
        mean = embeddings.mean(0)
        covariance = covariance_of(embeddings, mean)
        drift = mean.new_zeros(())
        if name in self.means:
            recent, spread = self.means[name], self.covariances[name]
            change = (mean - recent).abs().mean()  # d
            drift = self.drifts[name].lerp(change, self.average_momentum)
            least = LEAST_DRIFT if self.layouts[name].tokens else 0.0
            spike = (drift > least) & (change > self.spike_ratio * drift)
            mean = torch.where(spike, mean, recent.lerp(mean, self.statistics_momentum))
            covariance = torch.where(spike, covariance, spread.lerp(covariance, self.statistics_momentum))
            self.spikes = self.spikes + spike
        self.means = {**self.means, name: mean}
        self.covariances = {**self.covariances, name: covariance}
        self.drifts = {**self.drifts, name: drift}


def _full_precision(output: Tensor) -> AbstractContextManager[Any]:
    """Return what keeps autocast away from statistics."""
    return torch.autocast(output.device.type, enabled=False)


def _layouts(model: Classifier) -> dict[str, _Layout]:
    """Return the blocks that a pass calls once and whose output is a tensor, in the order of the pass."""
    blocks, calls = dict(model.blocks()), list[tuple[str, int]]()

    def note(name: str, output: Any) -> Any:
        calls.append((name, output.dim() if isinstance(output, Tensor) and output.is_floating_point() else 0))
        return output

    with torch.no_grad(), changing(model.module, {name: partial(note, name) for name in blocks}):
        model.module(model.trial_inputs())
    called = [name for name, _ in calls]
    return {
        name: _layout(blocks[name], dimensions)
        for name, dimensions in calls
        if dimensions > 1 and called.count(name) == 1
    }


def _layout(block: nn.Module, dimensions: int) -> _Layout:
    """Return where the channels are: second after convolutions, else last; also in blocks that normalise sequences."""
    parts = list(block.modules())
    convolves = any(isinstance(part, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) for part in parts)
    sequence = dimensions == 3 and any(type(part) is nn.LayerNorm for part in parts)
    pixels = dimensions > 2 and convolves and not sequence
    return _Layout(1, tokens=False) if pixels else _Layout(-1, tokens=True)
