"""What a step works with: the method, the estimators, the recovery, the range of inputs and the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from holdfast.estimators import Estimator, Observation
from holdfast.methods import Method
from holdfast.model.input_range import InputRange
from holdfast.models.classifier import Classifier
from holdfast.models.input_checks import explain_inputs
from holdfast.models.partial_forward import Recorded, recording
from holdfast.records import Estimate
from holdfast.recovery import Recovery
from holdfast.state import Contents, Inventory, Savepoint


@dataclass(frozen=True)
class Parts:
    """The parts of an adapted model, each with its own state; for one step, in which no module comes or goes."""

    method: Method
    estimators: Mapping[str, Estimator]
    recovery: Recovery
    input_range: InputRange
    source: Classifier | None
    inventories: tuple[Inventory, Inventory]

    @cached_property
    def groups(self) -> tuple[Contents, Contents]:
        """What can change in the modules that adapt to batches, and in those that count and check them."""
        adapting, counting = self.inventories
        return adapting.of(self.method, *self.estimators.values()), counting.of(self.recovery, self.input_range)

    @cached_property
    def networks(self) -> list[Classifier]:
        """The networks that samples go through, each once."""
        inside = [part for part in self.groups[0].modules if isinstance(part, Classifier)]
        return inside if self.source is None or self.source in inside else [*inside, self.source]

    def predict(self, inputs: Tensor, by: Callable[[Tensor], Tensor]) -> tuple[Tensor, Recorded]:
        """Return the prediction by a function of the method, and what estimators want of the pass that made it."""
        network = self.method.predictor
        try:
            if not self.estimators:
                return by(inputs), Recorded()
            wanted = {name for estimator in self.estimators.values() for name in estimator.reuses(network)}
            with recording(network, inputs, wanted) as recorded:
                return by(inputs), recorded
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = explain_inputs(inputs, network.input_spec, network.input_dtype)
            if reason is None:
                raise
            raise ValueError(reason) from error

    def estimate(self, inputs: Tensor, prediction: Tensor, recorded: Recorded) -> dict[str, Estimate]:
        """Return the estimates, made while the network is still the one that predicted."""
        if not self.estimators:
            return {}
        network = self.method.predictor
        origin = self.method.source_values(network)
        named = {**dict(network.named_parameters()), **dict(network.named_buffers())}
        seen = Observation(
            inputs,
            prediction,
            network,
            recorded=recorded,
            moving={name: named[name] for name in origin},
            origin=origin,
            source=self.source,
        )
        with torch.no_grad(), self.method.predictor_head():
            return {name: estimator.estimate(seen) for name, estimator in self.estimators.items()}

    def can_predict(self) -> bool:
        """Try to predict two inputs, and put everything back."""
        inputs = self.method.model.trial_inputs()
        savepoints = [Savepoint(inside) for inside in self.groups]
        try:
            self.method.pause()
            with torch.no_grad():
                logits, recorded = self.predict(inputs, self.method.predict)
                self.estimate(inputs, logits, recorded)
            return bool(torch.isfinite(logits).all())
        except Exception:
            return False
        finally:
            for savepoint in savepoints:
                savepoint.restore()
                savepoint.release()

    def passed(self) -> tuple[int, int]:
        """Return how many samples have gone through the networks, forwards and backwards."""
        return sum([network.samples_forwarded for network in self.networks]), self.method.samples_backwarded
