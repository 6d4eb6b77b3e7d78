"""Weigh the samples of a batch so that frequent classes do not dominate the statistics of their inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.blocks.recent_norm import TINY, Weights
from holdfast.state import Stateful

__all__ = ["Balance", "latest"]

RARE = 0.05  # added to the share of a class: a class that is never predicted counts 21 times one that always is
UPHELD = 0.4, 0.5  # classes that the source prefers are not trusted where the anchor upholds 40 % of that or less
SLIGHT = 0.05  # a preference that does not matter


class Balance(Stateful):
    """Weighs samples against the share of their predicted class among the last `window` predictions of the source.

    The weights of a batch have mean 1; if that of all batches were, the rare classes after a change of domain would be
    those of the domain before. Constant inputs (blank images, silence) show no class and count nothing.

    Under a shift of the inputs the source may take most of them for one class. `trust` tells: frequent classes are
    frequent by the predictions of the anchor, too.

    >>> balance = Balance(window=8)
    >>> weights = balance.weigh(torch.rand(4, 3), torch.tensor([0, 0, 0, 1]), num_classes=2)
    >>> [round(value, 2) for value in weights.values[1].tolist()]
    [0.71, 0.71, 0.71, 1.88]
    """

    predicted: Tensor | None
    followed: Tensor | None

    def __init__(self, *, window: int) -> None:
        super().__init__()
        self.window = window
        self.add_state("predicted", None)  # classes by the source, (samples,)
        self.add_state("followed", None)  # classes of the same samples by the anchor

    def weigh(self, inputs: Tensor, predicted: Tensor, num_classes: int) -> Weights:
        """Return the weights of a batch from the source's predicted classes, (batch,), and remember these."""
        self.predicted = latest(self.predicted, predicted, self.window)
        past = F.one_hot(self.predicted, num_classes).float()
        rarity = (1 / (past.mean(0) + RARE))[self.predicted]
        flat = inputs.flatten(1)
        varies = (flat.amax(1) > flat.amin(1)).float() if flat.shape[1] > 1 else torch.ones_like(rarity[: len(flat)])
        balanced = varies * rarity[-len(flat) :]
        return Weights(torch.stack([varies, balanced * varies.sum() / balanced.sum().clamp_min(TINY)]))

    def follow(self, predicted: Tensor) -> None:
        """Remember the anchor's predicted classes of the batch that was weighed."""
        self.followed = latest(self.followed, predicted, self.window)

    def trust(self, num_classes: int) -> Tensor | float:
        """Return how far the source's proportions of classes are believed, between 0 and 1.

        >>> balance = Balance(window=8)
        >>> _ = balance.weigh(torch.rand(4, 3), torch.tensor([0, 0, 0, 0]), num_classes=4)
        >>> balance.follow(torch.tensor([0, 0, 0, 1]))
        >>> round(float(balance.trust(4)), 2)  # both predict the first class too often: in 75 % and 50 % more samples
        1.0
        >>> balance.follow(torch.tensor([0, 1, 2, 3])); _ = balance.weigh(torch.rand(4, 3), torch.tensor([0] * 4), 4)
        >>> round(float(balance.trust(4)), 2)
        0.0
        """
        if self.predicted is None or self.followed is None:
            return 1.0
        source, anchor = (
            (F.one_hot(seen, num_classes).float().mean(0) - 1 / num_classes).clamp_min(0)
            for seen in (self.predicted, self.followed)
        )
        upheld = (torch.minimum(source, anchor).sum() + SLIGHT) / (source.sum() + SLIGHT)
        none, all_of_it = UPHELD
        return ((upheld - none) / (all_of_it - none)).clamp(0, 1)


def latest(before: Tensor | None, now: Tensor, window: int) -> Tensor:
    """Append a batch to earlier rows and return the last `window` of them, or the whole batch if that is more.

    >>> latest(torch.tensor([1, 2, 3]), torch.tensor([4]), 3), latest(torch.tensor([1]), torch.tensor([2, 3]), 1)
    (tensor([2, 3, 4]), tensor([2, 3]))
    """
    return now if before is None else torch.cat([before, now])[-max(window, len(now)) :]
