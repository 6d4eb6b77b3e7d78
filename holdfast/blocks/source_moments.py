"""Mean, variance and covariance of source embeddings over several batches, exact or as PEA's official code has them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.blocks.whitening import regularised


@dataclass(frozen=True)
class Embedded:
    """Statistics of embeddings of one width."""

    mean: Tensor  # (width,)
    var: Tensor  # (width,)
    covariance: Tensor  # (width, width), regularised


class SourceMoments:
    """Collects embeddings batch by batch, (embeddings, width) each.

    >>> found = SourceMoments(torch.tensor([[0.0], [2.0]]))
    >>> found.add(torch.tensor([[4.0], [6.0]]))
    >>> [round(float(moments.var), 3) for moments in (found.exact(), found.of_tokens(), found.of_pixels())]
    [6.667, 9.333, 5.0]
    """

    def __init__(self, embeddings: Tensor) -> None:
        width = embeddings.shape[1]
        self._count, self._batches = 0, 0
        self._mean, self._slip = embeddings.new_zeros(2, width)
        self._within, self._between, self._covariances = embeddings.new_zeros(3, width, width)
        self.add(embeddings)

    def add(self, embeddings: Tensor) -> None:
        """Add the embeddings of a batch."""
        count = len(embeddings)
        self._count, self._batches = self._count + count, self._batches + 1
        mean = embeddings.mean(0)
        centred = embeddings - mean
        scatter = centred.T @ centred
        step = mean - self._mean  # δ
        earlier = 1 - count / self._count  # share of the earlier batches
        self._mean = self._mean + step * (1 - earlier)
        self._within = self._within + scatter  # around the mean of each batch
        self._between = self._between + count * earlier * torch.outer(step, step)  # and from there to the mean of all
        self._slip = self._slip + count * earlier**2 * step**2
        self._covariances = self._covariances + scatter / max(count - 1, 1)

    def exact(self) -> Embedded:
        """Return the moments of all embeddings together, whatever the batches were."""
        covariance = (self._within + self._between) / max(self._count - 1, 1)
        return Embedded(self._mean, covariance.diagonal().clone(), regularised(covariance))

    def of_tokens(self) -> Embedded:
        """Return the official moments of tokens: the variance a little too large, the covariance within batches only.

        Where Welford's formula has the mean before a batch, the official code has one that is further away.
        """
        freedom = max(self._count - 1, 1)
        var = ((self._within + self._between).diagonal() + self._slip) / freedom
        return Embedded(self._mean, var, regularised(self._within / freedom))

    def of_pixels(self) -> Embedded:
        """Return the official moments of pixels: the biased variance, and the mean of the batches' covariances."""
        var = (self._within + self._between).diagonal() / self._count
        return Embedded(self._mean, var, regularised(self._covariances / self._batches))
