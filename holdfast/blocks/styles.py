"""Styles of batches: what the first layers of a network say about a domain, and clusters of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from holdfast.randomness import seed_for
from holdfast.state import Stateful

BETAS, ADAM_EPS, WEIGHT_DECAY = (0.9, 0.999), 1e-8, 0.01  # torch's AdamW


def style_of(features: Sequence[Tensor], *, channels_last: bool = False) -> Tensor:
    """Return the logarithm of the unbiased variance of each channel over batch and positions, of all layers in a row.

    >>> style_of([torch.tensor([[[[1.0, 3.0]]]])])  # ln 2
    tensor([0.6931])
    """
    variances = []
    for layer in features:
        channels = layer.movedim(-1, 1) if channels_last and layer.dim() == 3 else layer
        values = channels.to(torch.promote_types(layer.dtype, torch.float32))
        others = [axis for axis in range(values.dim()) if axis != 1]
        # Tensor.var takes 14 times as long.
        squares = (values - values.mean(others, keepdim=True)).square_().sum(others)
        variances.append(squares / max(1, values.numel() // values.shape[1] - 1))
    return torch.cat(variances).clamp_min(torch.finfo(variances[0].dtype).tiny).log()


def distance_quantile(styles: Tensor, share: float, vectors: int) -> float:
    """Return a quantile of the distances above 0 between vectors that repeat the styles, (styles, width), in turn.

    >>> distance_quantile(torch.tensor([[0.0], [1.0], [3.0]]), 0.5, vectors=300)
    2.0
    """
    counts = np.bincount(np.arange(vectors) % len(styles), minlength=len(styles)).astype(np.float64)
    upper = np.triu_indices(len(styles), 1)
    distances = torch.cdist(styles[None], styles[None]).squeeze(0).double().cpu().numpy()[upper]
    pairs = (counts[:, None] * counts[None, :])[upper] * 2
    kept = (distances > 0) & (pairs > 0)
    if not kept.any():
        return 0.0
    order = np.argsort(distances[kept])
    distances, ends = distances[kept][order], np.cumsum(pairs[kept][order])
    rank = share * (ends[-1] - 1)
    lower, higher = (distances[np.searchsorted(ends, whole, side="right")] for whole in (np.floor(rank), np.ceil(rank)))
    return float(lower + (rank - np.floor(rank)) * (higher - lower))


class StyleClusters(Stateful):
    """Cluster the styles of a stream online, by mutual information, and open a new cluster for a distant style.

    Centroids are the source's style plus offsets, which AdamW moves; a buffer holds a sample of the styles so far.
    """

    offsets: Tensor | None
    moments: list[Tensor] | None
    steps: int
    buffer: Tensor | None
    seen: int
    source: Tensor | None
    threshold: float | None

    def __init__(self, *, max_clusters: int, buffer_size: int, lr: float, seed: int) -> None:
        super().__init__()
        self.max_clusters, self.buffer_size, self.lr, self.seed = max_clusters, buffer_size, lr, seed
        self.add_state("source", None, kept=True)  # mean style of source batches
        self.add_state("threshold", None, kept=True)  # distance from which a style is new
        self.add_state("offsets", None)  # of the centroids, (clusters, width)
        self.add_state("moments", None)  # of AdamW
        self.add_state("steps", 0)
        self.add_state("buffer", None)
        self.add_state("seen", 0)

    def fit(self, styles: Tensor, *, share: float, vectors: int) -> None:
        """Set the first centroid and the threshold from the styles of source batches."""
        weights = torch.bincount(torch.arange(vectors) % len(styles), minlength=len(styles)).to(styles)
        self.source = (weights[:, None] * styles).sum(0) / weights.sum()
        self.threshold = distance_quantile(styles, share, vectors)

    def __len__(self) -> int:
        return 1 if self.offsets is None else len(self.offsets)

    def centroids(self) -> Tensor:
        """Return the centroids, (clusters, width)."""
        assert self.source is not None, "source styles have not been fitted"
        return self.source[None] if self.offsets is None else self.source + self.offsets

    def probabilities(self, style: Tensor) -> Tensor:
        """Return to which clusters a style belongs, (clusters,)."""
        return (-torch.cdist(style[None], self.centroids())).softmax(1)[0]

    def is_new(self, style: Tensor) -> bool:
        """Return whether a style is far from all centroids, and another cluster is allowed."""
        assert self.threshold is not None
        nearest = float(torch.cdist(style[None], self.centroids()).min())
        return nearest > self.threshold and len(self) < self.max_clusters

    def open(self, style: Tensor) -> None:
        """Open a cluster at a style, and start the optimiser anew."""
        assert self.source is not None
        offsets = torch.zeros_like(self.source)[None] if self.offsets is None else self.offsets
        self.offsets = torch.cat([offsets, (style - self.source)[None]])
        self.moments, self.steps = None, 0

    def move(self, style: Tensor) -> Tensor:
        """Return to which clusters a style belongs, then move the centroids and offer the style to the buffer."""
        assert self.source is not None
        known = style[None] if self.buffer is None else torch.cat([self.buffer, style[None]])
        offsets = torch.zeros_like(self.source)[None] if self.offsets is None else self.offsets.clone()
        with torch.enable_grad():
            log_probs = (-torch.cdist(known, self.source + offsets.requires_grad_())).log_softmax(1)
            probs = log_probs.exp()
            mean = probs.mean(0).clamp_min(torch.finfo(probs.dtype).tiny)  # a far cluster has probability 0
            loss = (mean * mean.log()).sum() - (probs * log_probs).sum(1).mean()
            (gradient,) = torch.autograd.grad(loss, offsets)
        self.offsets = self._stepped(offsets.detach(), gradient)
        self._offer(style)
        return probs.detach()[-1]

    def _stepped(self, offsets: Tensor, gradient: Tensor) -> Tensor:
        """Return the offsets after one step of AdamW."""
        self.steps += 1
        first, second = self.moments or [torch.zeros_like(offsets), torch.zeros_like(offsets)]
        first, second = gradient.lerp(first, BETAS[0]), gradient.square().lerp(second, BETAS[1])
        self.moments = [first, second]
        corrections = [1 - beta**self.steps for beta in BETAS]
        scale = (second / corrections[1]).sqrt() + ADAM_EPS
        return offsets * (1 - self.lr * WEIGHT_DECAY) - self.lr / corrections[0] * first / scale

    def _offer(self, style: Tensor) -> None:
        """Append a style while there is room for the clusters so far; later replace a random one."""
        self.seen += 1
        room = self.buffer_size // self.max_clusters * len(self)
        if self.buffer is None or len(self.buffer) < room:
            self.buffer = style[None] if self.buffer is None else torch.cat([self.buffer, style[None]])
            return
        draws = random.Random(seed_for(self.seed, "styles", self.seen))
        if draws.random() < len(self.buffer) / self.seen:
            row = draws.randrange(len(self.buffer))
            self.buffer = torch.cat([self.buffer[:row], style[None], self.buffer[row + 1 :]])
