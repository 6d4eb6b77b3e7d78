"""A batch that is predicted and not yet adapted to: `AdaptedModel.begin` returns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from holdfast.records import Step

__all__ = ["Pending"]


class Pending:
    """The prediction of one batch, available before the model adapts to that batch.

    `finish` adapts and returns the step; it may be called from another thread, and a second call returns the same step.
    A model has at most one pending batch: whatever is done with the model next finishes it first, so that predictions
    are those of `step` in the same order. `predicts` is "after" for a method whose prediction needs an update on the
    same batch: that part of the work is then done already, and `logits` came no earlier than from `step`.
    """

    def __init__(
        self,
        logits: Tensor,
        finish: Callable[[], Step],
        *,
        predicts: Literal["before", "after"],
        ids: tuple[int, ...] = (),
        wants_label: tuple[bool, ...] = (),
    ) -> None:
        self.logits = logits
        self.predicts = predicts  # before or after the update on the same batch
        self.ids = ids  # of the samples, for `feedback`; only of guarded models
        self.wants_label = wants_label  # which of them are worth a label
        self._finish = finish

    def finish(self) -> Step:
        """Adapt to the batch, estimate, recover if necessary, and return what was done; errors never cost the logits.

        >>> import torch
        >>> from holdfast.models.tiny import tiny_resnet
        >>> from holdfast.model.adapt import adapt
        >>> pending = adapt(tiny_resnet(), "tent").begin(torch.rand(8, 3, 32, 32))
        >>> pending.logits.shape, pending.predicts
        (torch.Size([8, 10]), 'before')
        >>> pending.finish().loss > 0
        True
        """
        return self._finish()
