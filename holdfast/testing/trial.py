"""A method on one network and a few batches, run once without disturbance for the contracts to compare with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property

from torch import Tensor

from holdfast.model.adapted import AdaptedModel
from holdfast.testing.comparison import Batches


class Trial:
    """Hands out models, each a copy of its own, and the predictions of an undisturbed run on the same batches.

    >>> import torch, holdfast
    >>> from holdfast.models.tiny import tiny_resnet
    >>> trial = Trial(lambda: holdfast.adapt(tiny_resnet(), "tent"), list(torch.rand(3, 4, 3, 16, 16)))
    >>> torch.equal(trial.adapted()(trial.batches[-1]), trial.predictions[-1])
    True
    """

    def __init__(self, build: Callable[[], AdaptedModel], batches: Batches) -> None:
        self.build, self.batches = build, batches

    def unused(self) -> AdaptedModel:
        """Return a model that has seen no batch: a copy, which is faster than building one."""
        return copy.deepcopy(self._unused)

    def adapted(self) -> AdaptedModel:
        """Return a model that has adapted to all batches but the last."""
        return copy.deepcopy(self._run[0])

    @property
    def before_the_last(self) -> AdaptedModel:
        """The model that has adapted to all batches but the last: to compare with, never to run."""
        return self._run[0]

    @property
    def predictions(self) -> list[Tensor]:
        """The predictions of the undisturbed run on each batch."""
        return self._run[1]

    @property
    def next_prediction(self) -> Tensor:
        """The prediction of the undisturbed run on the first batch, seen again after the last."""
        return self._run[2]

    @cached_property
    def _unused(self) -> AdaptedModel:
        return self.build()

    @cached_property
    def _run(self) -> tuple[AdaptedModel, list[Tensor], Tensor]:
        model = self.unused()
        *earlier, last = self.batches
        predictions = [model(batch) for batch in earlier]
        adapted = copy.deepcopy(model)
        predictions.append(model(last))
        return adapted, predictions, model(self.batches[0])
