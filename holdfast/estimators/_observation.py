"""One predicted batch as estimators see it; a pass that several of them need is run once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from torch import Tensor
from torch.func import functional_call

from holdfast.blocks.norm import paused
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import Recorded

T = TypeVar("T")


class Observation:
    """Inputs, logits, and the network that predicted them, before its update.

    Args:
        inputs: the batch.
        logits: that were predicted for it.
        model: the network that predicted, before its update.
        recorded: activations of the predicting pass, if it was a plain one.
        moving: tensors that adaptation may change, by name.
        origin: their values in the source.
        source: a function that returns the logits of the source.
    """

    def __init__(
        self,
        inputs: Tensor,
        logits: Tensor,
        model: Classifier,
        *,
        recorded: Recorded | None = None,
        moving: Mapping[str, Tensor] | None = None,
        origin: Mapping[str, Tensor] | None = None,
        source: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.inputs, self.logits, self.model = inputs, logits, model
        self.recorded = recorded or Recorded()  # from the predicting pass, if it was a plain one
        self.moving = moving or {}  # tensors that adaptation may change, by name
        self.origin = origin or {}  # their values in the source
        self._source = source
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what another estimator computed under this key, or compute it.

        >>> import torch
        >>> from holdfast.models.tiny import tiny_resnet
        >>> seen = Observation(torch.zeros(1, 3, 8, 8), torch.zeros(1, 10), Classifier(tiny_resnet()))
        >>> seen.once("passes", lambda: 1), seen.once("passes", lambda: 2)
        (1, 1)
        """
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    @property
    def source_logits(self) -> Tensor:
        """The logits of the source: the caller's network exactly as it was given."""
        source = self._source
        if source is None:
            raise ValueError("the source of this prediction is not known; pass the estimator to holdfast.adapt")
        return self.once("source", lambda: source(self.inputs))

    def logits_with(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the logits for the same inputs with other values of the adapted tensors."""
        with paused(self.model):
            logits: Tensor = functional_call(self.model, dict(values), (self.inputs,))
        return logits

    def agreement(self, logits: Tensor) -> float:
        """Return the share of this batch for which other logits, (…, batch, classes), predict the same class."""
        return float((logits.argmax(-1) == self.logits.argmax(-1)).double().mean())
