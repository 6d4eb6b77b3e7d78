"""`guard`: a model that serves source, anchor and adapted network together, and takes labels where they come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.anchor import Card, latest
from holdfast.evidence import Interval, LabelAudit, LabelRequests
from holdfast.evidence.checks import class_or_none
from holdfast.methods.guard import Guard
from holdfast.model.adapt import Watching, adapt_with, check_order
from holdfast.model.adapted import AdaptedModel, SourceBatch
from holdfast.model.parts import Parts
from holdfast.model.pending import Pending
from holdfast.models.base import load
from holdfast.models.engines import EngineName
from holdfast.models.inputs import inputs_and_labels
from holdfast.models.outputs import Output
from holdfast.recipes import resolve
from holdfast.records import Estimate, Event, LabelWanted, Step, Verdict
from holdfast.state import Contents, Savepoint, Stateful, contents, modules_of

LABELS_TO_FIT = 20  # before the temperature is fitted to labels that came back
LABELS_KEPT = 256  # with the anchor's logits: answered ones, and those that are waited for
TOO_FAR = 0.1  # divergence of recent moments from the source's, beyond which confidence says nothing about accuracy
PATIENCE = 10_000  # samples after which a label that was asked for is no longer waited for


class Feedback(Stateful):
    """What a guarded model keeps for its estimates and for the labels that come back."""

    beliefs: Tensor | None
    gains: Tensor | None
    asked: dict[int, Tensor]
    answered: list[list[Any]]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("beliefs", None)  # probabilities that the last predictions are right, (samples,)
        self.add_state("gains", None)  # the same minus that of the source's predictions
        self.add_state("asked", {}, kept=True)  # the anchor's logits of samples whose label is wanted, by id
        self.add_state("answered", [], kept=True)  # [logits, label]

    def serve(self, verdict: Verdict, asked: LabelRequests, window: int) -> None:
        """Remember what the guard thinks of a batch, and the anchor's logits of samples whose label is wanted."""
        self.beliefs = latest(self.beliefs, verdict.right, window)
        self.gains = latest(self.gains, verdict.right - verdict.source_right, window)
        rows = dict(zip(asked.ids.tolist(), verdict.logits, strict=True))
        wanted = [*self.asked.items(), *[(sample, rows[sample]) for sample in asked.wanted_ids]]
        self.asked = dict(wanted[-LABELS_KEPT:])

    def answer(self, sample_id: int, label: int | None) -> bool:
        """Take a wanted label, and return whether there is one more to fit the temperature to."""
        logits = self.asked.get(sample_id)
        if logits is None:
            return False
        self.asked = {sample: row for sample, row in self.asked.items() if sample != sample_id}
        if label is not None:
            self.answered = [*self.answered, [logits, int(label)]][-LABELS_KEPT:]
        return label is not None


class GuardedModel(AdaptedModel):
    """An adapted model whose steps say which labels are worth having, and that bounds its accuracy by them.

    What `step` and `begin` predict counts as served, and its labels can be wanted, also with `adapt=False`, which
    changes nothing else; `predict` counts nothing.

    Args:
        *arguments: those of `AdaptedModel`; `holdfast.guard` passes them.
        **options: those of `AdaptedModel`.
    """

    beside_adaptation = ("labels", "audit")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.labels, self.audit = Feedback(), LabelAudit()

    def asking(self, **options: Any) -> GuardedModel:
        """Set the options of the label audit (`LabelAudit`) before the first batch, and return the model."""
        self.audit = LabelAudit(**options)
        return self

    def _pending(self, parts: Parts, inputs: Tensor, *, learning: bool, counted: bool) -> Pending:
        if not counted:
            return super()._pending(parts, inputs, learning=learning, counted=False)
        return GuardedPending(self, parts, self._transactions, inputs, learning=learning)

    def _changeable(self) -> list[Contents]:
        return [*super()._changeable(), contents(modules_of(self.labels, self.audit))]

    def count(self, verdict: Verdict) -> tuple[LabelRequests, Estimate]:
        """Count a batch as served, and return which of its labels are wanted and the guard's estimate."""
        asked = self.audit.serve(
            served=verdict.served.tolist(),
            source=verdict.source.tolist(),
            right=verdict.right.clamp(0, 1).tolist(),
            source_right=verdict.source_right.clamp(0, 1).tolist(),
        )
        self.labels.serve(verdict, asked, self.guard.window)
        return asked, self._estimate_of(verdict)

    def feedback(self, sample_id: int, label: int | None = None, *, correct: bool | None = None) -> bool:
        """Take the true label of a sample, or whether its prediction is `correct`; neither says that it cannot be had.

        Returns whether it counts in the label audit. Only what a step asked for does: the rest is no random sample.
        Late labels and any order are fine. After 20 labels the anchor's temperature is fitted to them.
        """
        label = class_or_none(label, correct, classes=self.method.model.num_classes)
        with self._changing():
            counts = self.audit.feedback(sample_id, label, correct=correct)
            if counts and self.labels.answer(sample_id, label):
                self._fit_temperature()
            return counts

    def accuracy(self) -> Interval:
        """Return bounds of the accuracy of all that was served, guaranteed by labels; everything before the first."""
        with self._transactions.settled():
            return self.audit.accuracy()

    def gain(self) -> Interval:
        """Return bounds of that accuracy minus the source's on the same samples, guaranteed by labels."""
        with self._transactions.settled():
            return self.audit.gain()

    def fit_holdout(self, batches: Iterable[SourceBatch]) -> None:
        """Fit the temperature of the anchor to held-out source data, and show them to the estimators."""
        shown = list(batches)
        super().fit_holdout(shown)
        if shown:
            with self._changing(), torch.no_grad():
                self.guard.fit_temperature([inputs_and_labels(batch) for batch in shown])

    def reset(self) -> None:
        """Return to the state at construction; labels, the label audit and the fitted temperature stay."""
        with self._changing():
            super().reset()
            self.labels.reset_state()

    @property
    def guard(self) -> Guard:
        """The method, which guards another one."""
        assert isinstance(self.method, Guard)
        return self.method

    def _fit_temperature(self) -> None:
        if len(self.labels.answered) >= LABELS_TO_FIT:
            logits = torch.stack([row for row, _ in self.labels.answered])
            known = torch.tensor([label for _, label in self.labels.answered], device=logits.device)
            self.guard.anchor_temperature.fit(self.guard.judge, [logits], [known])

    def _estimate_of(self, verdict: Verdict) -> Estimate:
        beliefs, gains, temperature = self.labels.beliefs, self.labels.gains, self.guard.anchor_temperature
        assert beliefs is not None
        assert gains is not None
        gain = round(float(gains.mean()), 6)
        unknown, recent = temperature.unknown(follows=self.guard.compares), self.guard.judge.recent
        if verdict.shift > TOO_FAR:
            unknown = f"the inputs are too far from the source data (divergence {verdict.shift:.2f}, over {TOO_FAR})"
        if unknown is not None or recent is None:  # a paused guard has seen nothing yet
            return Estimate(math.nan, unknown=unknown or "no batch was adapted to yet", gain=gain)
        return replace(temperature.estimate(beliefs, verdict.weighed, recent, follows=self.guard.follows), gain=gain)


class GuardedPending(Pending):
    """A step whose prediction counts as served: it has ids, and labels that are wanted."""

    def __init__(self, model: GuardedModel, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._model = model
        self._verdict: Verdict | None = None
        self._estimate: Estimate | None = None
        self._wanted: tuple[Event, ...] = ()

    def predict(self, savepoints: Sequence[Savepoint]) -> None:
        """Predict the batch and count it as served, unless nothing can be said about the prediction."""
        super().predict(savepoints)
        if self._verdict is None:
            return
        before = Savepoint(contents(modules_of(self._model.labels, self._model.audit)))
        try:
            asked, self._estimate = self._model.count(self._verdict)
        except BaseException:
            before.restore()
            raise
        finally:
            before.release()
        self.ids, self.wants_label = tuple(asked.ids.tolist()), tuple(asked.wanted.tolist())
        if wanted := asked.wanted_ids:
            reason = f"{len(wanted)} of {len(self.ids)} samples were drawn for the label audit"
            rates = {"lowest_rate": float(asked.rates[asked.wanted].min())}
            self._wanted = (LabelWanted(reason, rates, tuple(wanted)),)

    def logits_of(self, inputs: Tensor) -> Tensor:
        """Return what the guard serves, and keep its verdict."""
        logits, self._verdict = self._model.guard.serve(inputs)
        return logits

    def report(self, step: Step) -> Step:
        """Return the step with the guard's estimate and verdict, ids and wanted labels."""
        if self._estimate is None:
            return step
        estimates = {**step.estimates, "guard": self._estimate}
        events = step.events + self._wanted
        return replace(step, estimates=estimates, events=events, ids=self.ids, verdict=self._verdict)


def guard(
    model: nn.Module | str,
    method: str = "auto",
    *,
    options: Mapping[str, Any] | None = None,
    budget: float = 0.02,
    confidence: float = 0.95,
    clean_accuracy: float | None = None,
    estimator: Watching = None,
    source: Iterable[Tensor | Sequence[Tensor]] | None = None,
    holdout: Iterable[Tensor | Sequence[Tensor]] | None = None,
    card: Card | str | Path | None = None,
    example: Tensor | None = None,
    head: str | None = None,
    output: Output = None,
    in_place: bool = False,
    source_engine: EngineName = "exact",
    **guarding: Any,
) -> GuardedModel:
    """Return an adapted model that serves source, anchor and a network adapted by `method` together.

    Labels are asked for by `step.wants_label` and given by `feedback`; `accuracy` and `gain` return bounds that hold at
    all times at once. Without labels everything is an estimate.

    Args:
        model: a network, or the name of one.
        method: a method or recipe by name, whose recovery acts on the adapted network; "auto" trains nothing.
        options: options that `adapt` takes for the method.
        budget: share of samples whose label is asked for, between 0 and 1.
        confidence: probability that all bounds hold together.
        clean_accuracy: known accuracy of the network on source data, between 0 and 1.
        estimator: further estimators, as in `adapt`.
        source: unlabelled inputs like those that the network was trained on, a few hundred: the default follows the
            stream from their moments, and some methods need them.
        holdout: held-out source data, best with labels, which fit the temperature of the estimates.
        card: what `make_card` measured, or its file, instead of `source`.
        example: a batch of inputs; only needed if probing the network does not find its inputs.
        head: name of the last layer; only needed if probing does not find it.
        output: where the logits are if the network returns a tuple, a mapping or a single logit: an index, a key,
            "binary", or a function.
        in_place: whether to adapt `model` itself instead of a copy.
        source_engine: how the source is run, as in `adapt`.
        **guarding: options of the guard (`docs/methods/guard.md`).

    >>> from holdfast.models.tiny import tiny_resnet
    >>> model = guard(tiny_resnet(), "tent", budget=0.5)
    >>> step = model.step(torch.rand(8, 3, 32, 32))
    >>> for sample, wanted in zip(step.ids, step.wants_label):
    ...     if wanted:
    ...         counted = model.feedback(sample, label=3)
    >>> model.accuracy().low, sorted(step.estimates)
    (0.0, ['guard'])
    """
    check_order("guard", model, method)
    if clean_accuracy is not None:
        guarding["clean_accuracy"] = clean_accuracy
    recipe = resolve("guard", base=method, base_options=dict(options or {}), **guarding)
    built = adapt_with(
        recipe,
        load(model) if isinstance(model, str) else model,
        estimator=estimator,
        source=source,
        holdout=holdout,
        card=card,
        example=example,
        head=head,
        output=output,
        in_place=in_place,
        source_engine=source_engine,
        build=GuardedModel,
    )
    return built.asking(budget=budget, confidence=confidence, patience=PATIENCE)
