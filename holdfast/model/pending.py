"""A step as an object: it predicts a batch, and then adapts to it. `AdaptedModel.begin` returns it in between."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from holdfast.model.input_range import magnitude
from holdfast.model.parts import Parts
from holdfast.model.transaction import Transactions
from holdfast.models.partial_forward import Recorded
from holdfast.records import Beside, Estimate, Refused, Reset, Step, Update
from holdfast.state import Savepoint

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Predicted:
    """What the second half of a step needs of the first."""

    inputs: Tensor
    logits: Tensor  # with their graph
    recorded: Recorded
    recovered: str | None
    refusal: str | None  # why this batch is not adapted to
    precision: torch.dtype | None  # of autocast: the second half may run elsewhere


class Pending:
    """The prediction of one batch, available before the model adapts to that batch.

    `finish` adapts and returns the step; it may be called from another thread, and a second call returns the same step.
    A model has at most one pending batch: whatever is done with the model next finishes it first, so that predictions
    are those of `step` in the same order. `predicts` is "after" for a method whose prediction needs an update on the
    same batch: that part of the work is then done already, and `logits` came no earlier than from `step`.
    """

    logits: Tensor
    ids: tuple[int, ...] = ()  # of the samples, for `feedback`; only of guarded models
    wants_label: tuple[bool, ...] = ()  # which of them are worth a label

    def __init__(self, parts: Parts, transactions: Transactions, inputs: Tensor, *, learning: bool) -> None:
        self.predicts: Literal["before", "after"] = parts.method.predicts  # the update on the same batch
        self.savepoints: Sequence[Savepoint] = ()
        self._parts, self._transactions, self._inputs, self._learning = parts, transactions, inputs, learning
        self._passed = parts.passed()
        self._predicted: _Predicted | None = None
        self._step: Step | None = None

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
        with self._transactions:
            return self.finished()

    def finished(self) -> Step:
        """Finish under the lock of the model, which the caller holds."""
        self._transactions.settle(self)
        return self.report(self._step or Step(self.logits, events=(Refused("the update was interrupted"),)))

    def report(self, step: Step) -> Step:
        """Return the step with what this kind of model adds to it."""
        return step

    # The first half ---------------------------------------------------------------------------------------

    def predict(self, savepoints: Sequence[Savepoint]) -> None:
        """Predict the batch; on inputs that must not be adapted to, once more from the state before."""
        self.savepoints = savepoints
        with torch.set_grad_enabled(self._grad):
            self._predicted = self._predict(savepoints[0])
        self.logits = self._predicted.logits.detach()

    @property
    def _grad(self) -> bool:
        return self._learning and bool(self._parts.method.trained)

    def _predict(self, before: Savepoint) -> _Predicted:
        parts, inputs = self._parts, self._inputs
        recovered = parts.recovery.begin(parts.method.recovering) if self._learning else None
        # When the logits are not finite, the method returns to here, not to before the reset.
        learnt = before if recovered is None else Savepoint(parts.groups[0])
        parts.method.pause(not self._learning)
        try:
            logits, recorded = parts.predict(inputs, self.logits_of)
        except Exception:
            refusal, finite = self._examine(inputs)
            if refusal is None:  # it is not because of the values
                raise
        else:
            refusal, finite = self._examine(inputs, logits.detach())
        if refusal is not None:  # predict once more, without learning from these values
            learnt.restore()
            parts.method.pause()
            inputs, refusal = _without_non_finite(inputs, refusal)
            logits, recorded = parts.predict(inputs, self.logits_of)
        elif not finite:
            learnt.restore()
            refusal = "non-finite logits"
        device = logits.device.type
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        return _Predicted(inputs, logits, recorded, recovered, refusal, precision)

    def logits_of(self, inputs: Tensor) -> Tensor:
        """Return what the method predicts."""
        return self._parts.method.predict(inputs)

    def _examine(self, inputs: Tensor, logits: Tensor | None = None) -> tuple[str | None, bool]:
        """Return why inputs are not adapted to, or None, and whether the logits are finite: the host waits once."""
        finite = torch.isfinite(inputs.new_zeros(()) if logits is None else logits).all()
        if not inputs.is_floating_point():  # indices have no scale, and bytes cannot leave theirs
            return None, bool(finite)
        reached, is_finite = torch.stack([magnitude(inputs), finite.to(inputs)]).tolist()
        return self._parts.input_range.refusal(reached), bool(is_finite)

    # The second half --------------------------------------------------------------------------------------

    def adapt(self) -> None:
        """Adapt to the batch, or, when nothing is to be learnt, put everything back after the estimates."""
        now, self._predicted = self._predicted, None  # and with it the graph of the prediction
        assert now is not None
        device = self.logits.device.type
        autocast = nullcontext() if now.precision is None else torch.autocast(device, now.precision)
        with torch.inference_mode(False), torch.set_grad_enabled(self._grad), autocast:
            self._step = self._adapt(now)
            if not self._learning:
                self._put_back()

    def _adapt(self, now: _Predicted) -> Step:
        parts, refusal, estimating = self._parts, now.refusal, 0.0
        unknown = refusal or "the step failed"
        estimates = {name: Estimate(math.nan, unknown=unknown) for name in parts.estimators} if parts.estimators else {}
        try:
            if refusal is None:
                before = self._passes()[0] if parts.estimators else 0.0
                estimates = parts.estimate(now.inputs, self.logits, now.recorded)
                estimating = self._passes()[0] - before if parts.estimators else 0.0
            update, beside = Update(events=() if refusal is None else (Refused(refusal),)), None
            if self._learning and refusal is None:
                if parts.recovery.compares:
                    own = parts.method.network_logits(self.logits)
                    beside = Beside(own, parts.method.source_logits(now.inputs))
                update = parts.method.adapt(now.inputs, now.logits)
            events = update.events if now.recovered is None else (Reset(now.recovered), *update.events)
            gauges = parts.method.gauges()
            passes = self._passes()
            step = Step(
                self.logits, update.loss, estimates, events, *passes, gauges, beside=beside, estimating=estimating
            )
            reason = parts.recovery.recover(parts.method.recovering, step) if self._learning else None
            return step if reason is None else replace(step, events=(*events, Reset(reason)))
        except Exception as error:
            passes = self._passes()
            self._put_back()
            LOG.warning("the update failed and was undone; the prediction is returned", exc_info=error)
            return Step(self.logits, None, estimates, (Refused(f"{type(error).__name__}: {error}"),), *passes)

    def _put_back(self) -> None:
        for savepoint in self.savepoints:
            savepoint.restore()

    def _passes(self) -> tuple[float, float]:
        """Return the network passes of this step per sample, forwards and backwards."""
        forwarded, backwarded = self._parts.passed()
        size = len(self._inputs)
        return (forwarded - self._passed[0]) / size, (backwarded - self._passed[1]) / size


def _without_non_finite(inputs: Tensor, refusal: str) -> tuple[Tensor, str]:
    """Return refused inputs with zeros for values that are not finite, and why they are refused."""
    bad = int((~torch.isfinite(inputs)).flatten(1).any(1).sum())
    if not bad:
        return inputs, refusal
    return inputs.nan_to_num(0.0, 0.0, 0.0), f"non-finite values in {bad} of {len(inputs)} inputs"
