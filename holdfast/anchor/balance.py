"""Weigh the samples of a batch so that frequent classes do not dominate the statistics of their inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.blocks.recent_norm import TINY, Weights
from holdfast.state import Stateful

__all__ = ["Balance", "latest", "show_something"]

RARE = 0.05  # added to the share of a class: a class that is never predicted counts 21 times one that always is
UPHELD = 0.4, 0.5  # classes that the source prefers are not trusted where the anchor upholds 40 % of that or less
AGREED = 0.3, 0.4  # the same for predictions of the source where it is surer
SLIGHT = 0.05  # a preference that does not matter
NO_CLASS = -1


class Balance(Stateful):
    """Weighs samples against the share of their predicted class among the last `window` predictions of the source.

    The weights of a batch have mean 1; if that of all batches were, the rare classes after a change of domain would be
    those of the domain before. Inputs that show nothing (`show_something`) count nothing.

    Under a shift of the inputs the source may take most of them for one class. `trust` tells: frequent classes are
    frequent by the predictions of the anchor, too.

    >>> balance = Balance(window=8)
    >>> shown = torch.ones(4, dtype=torch.bool)
    >>> weights = balance.weigh(torch.tensor([0, 0, 0, 1]), shown, num_classes=2)
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

    def weigh(self, predicted: Tensor, shown: Tensor, num_classes: int) -> Weights:
        """Return the weights of a batch from the source's predicted classes, (batch,), and remember these.

        `shown` says which inputs show something, (batch,).
        """
        self.predicted = latest(self.predicted, predicted.where(shown, NO_CLASS), self.window)
        rarity = 1 / (shares_of(self.predicted, num_classes) + RARE)
        plain = shown.float()
        balanced = plain * rarity[predicted]
        return Weights(torch.stack([plain, balanced * plain.sum() / balanced.sum().clamp_min(TINY)]))

    def follow(self, predicted: Tensor, shown: Tensor) -> None:
        """Remember the anchor's predicted classes of the batch that was weighed."""
        self.followed = latest(self.followed, predicted.where(shown, NO_CLASS), self.window)

    def trust(self, num_classes: int) -> Tensor | float:
        """Return how far the source's proportions of classes are believed, between 0 and 1.

        >>> balance, shown = Balance(window=8), torch.ones(4, dtype=torch.bool)
        >>> _ = balance.weigh(torch.tensor([0, 0, 0, 0]), shown, num_classes=4)
        >>> balance.follow(torch.tensor([0, 0, 0, 1]), shown)
        >>> round(float(balance.trust(4)), 2)  # both predict the first class too often: in 75 % and 50 % more samples
        1.0
        >>> balance.follow(torch.tensor([0, 1, 2, 3]), shown); _ = balance.weigh(torch.tensor([0] * 4), shown, 4)
        >>> round(float(balance.trust(4)), 2)
        0.0
        """
        return self._upheld(num_classes, *UPHELD)

    def agreement(self, num_classes: int) -> Tensor | float:
        """Return how far the anchor predicts the classes that the source prefers, between 0 and 1."""
        return self._upheld(num_classes, *AGREED)

    def _upheld(self, num_classes: int, none: float, all_of_it: float) -> Tensor | float:
        if self.predicted is None or self.followed is None:
            return 1.0
        source, anchor = (
            (shares_of(seen, num_classes) - 1 / num_classes).clamp_min(0) for seen in (self.predicted, self.followed)
        )
        upheld = (torch.minimum(source, anchor).sum() + SLIGHT) / (source.sum() + SLIGHT)
        return ((upheld - none) / (all_of_it - none)).clamp(0, 1)


def show_something(inputs: Tensor) -> Tensor:
    """Return which inputs show something, (batch,): constant ones (blank images, silence) show no class.

    >>> show_something(torch.tensor([[0.2, 0.3], [0.5, 0.5]])), show_something(torch.tensor([[0.5]]))
    (tensor([ True, False]), tensor([True]))
    """
    flat = inputs.reshape(len(inputs), -1)
    return flat.amax(1) > flat.amin(1) if flat.shape[1] > 1 else flat.new_ones(len(flat), dtype=torch.bool)


def shares_of(classes: Tensor, num_classes: int) -> Tensor:
    """Return the share of each class, (classes,), among those that are known.

    >>> shares_of(torch.tensor([0, 0, 1, NO_CLASS, 0]), 2)
    tensor([0.7500, 0.2500])
    """
    counts = F.one_hot(classes + 1, num_classes + 1).float().sum(0)[1:]
    return counts / counts.sum().clamp_min(1)


def latest(before: Tensor | None, now: Tensor, window: int) -> Tensor:
    """Append a batch to earlier rows and return the last `window` of them, or the whole batch if that is more.

    >>> latest(torch.tensor([1, 2, 3]), torch.tensor([4]), 3), latest(torch.tensor([1]), torch.tensor([2, 3]), 1)
    (tensor([2, 3, 4]), tensor([2, 3]))
    """
    return now if before is None else torch.cat([before, now])[-max(window, len(now)) :]
