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
from holdfast.evidence import Interval, LabelAudit
from holdfast.methods.guard import Guard, Verdict
from holdfast.model.adapt import Watching, adapt_with, check_order
from holdfast.model.adapted import AdaptedModel, SourceBatch
from holdfast.model.pending import Pending
from holdfast.models.base import load
from holdfast.models.inputs import inputs_and_labels, single_input
from holdfast.models.outputs import Output
from holdfast.recipes import resolve
from holdfast.records import Estimate, Step
from holdfast.state import Stateful

__all__ = ["GuardedModel", "guard"]

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
    audit: dict[str, Any] | None

    def __init__(self) -> None:
        super().__init__()
        self.add_state("beliefs", None)  # probabilities that the last predictions are right, (samples,)
        self.add_state("gains", None)  # the same minus that of the source's predictions
        self.add_state("asked", {}, kept=True)  # the anchor's logits of samples whose label is wanted, by id
        self.add_state("answered", [], kept=True)  # [logits, label]
        self.add_state("audit", None, kept=True)  # the state of the audit


class GuardedModel(AdaptedModel):
    """An adapted model whose steps say which labels are worth having, and that bounds its accuracy by them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.labels = Feedback()
        self._audit_options: dict[str, Any] = {}

    def asking(self, **options: Any) -> GuardedModel:
        """Set the options of the audit (`LabelAudit`) before the first batch, and return the model."""
        LabelAudit(**options)
        self._audit_options = options
        return self

    @property
    def audit(self) -> LabelAudit:
        """The audit as it is now, as a copy."""
        audit = LabelAudit(**self._audit_options)
        if self.labels.audit is not None:
            audit.state = self.labels.audit
        return audit

    def begin(
        self, inputs: Tensor | Mapping[str, Tensor] | None = None, *, adapt: bool = True, **named: Tensor
    ) -> Pending:
        """Predict a batch now and adapt to it later; ids and wanted labels come with the prediction.

        With `adapt=False` nothing but the audit changes: what is served counts, and its labels can be wanted.
        """
        with self._transactions.exclusive():
            self._guard.verdict = None
            pending = super().begin(single_input(inputs, named), adapt=adapt)
            verdict = self._guard.verdict
            if verdict is None:
                return pending
            audit = self.audit
            asked = audit.serve(
                served=verdict.served.tolist(),
                source=verdict.source.tolist(),
                right=verdict.right.clamp(0, 1).tolist(),
                source_right=verdict.source_right.clamp(0, 1).tolist(),
            )
            rows = dict(zip(asked.ids.tolist(), verdict.logits, strict=True))
            wanted = [*self.labels.asked.items(), *((place, rows[place]) for place in asked.wanted_ids)]
            self.labels.asked = dict(wanted[-LABELS_KEPT:])
            self.labels.audit = audit.state
            guarded = {"guard": self._estimate_of(verdict)}
            ids, wants_label = tuple(asked.ids.tolist()), tuple(asked.wanted.tolist())

        def finish() -> Step:
            step = pending.finish()
            return replace(step, estimates={**step.estimates, **guarded}, ids=ids, wants_label=wants_label)

        return Pending(pending.logits, finish, predicts=pending.predicts, ids=ids, wants_label=wants_label)

    def predict(self, inputs: Tensor | Mapping[str, Tensor] | None = None, **named: Tensor) -> Step:
        """Predict a batch and estimate the accuracy without changing anything, and without counting it as served."""
        with self._transactions.exclusive():
            return super().begin(single_input(inputs, named), adapt=False).finish()

    def feedback(self, sample_id: int, label: int | None) -> bool:
        """Take the true label of a sample, or None if it cannot be had, and return whether it counts in the audit.

        Only labels that a step asked for count: others are not a random sample. Late labels and any order are fine.
        After 20 labels the anchor's temperature is fitted to them.
        """
        with self._transactions.exclusive():
            audit = self.audit
            counts = audit.feedback(sample_id, label)
            logits = self.labels.asked.get(sample_id)
            if counts and logits is not None:
                self.labels.asked = {place: row for place, row in self.labels.asked.items() if place != sample_id}
                if label is not None:
                    self.labels.answered = [*self.labels.answered, [logits, int(label)]][-LABELS_KEPT:]
                    self._fit_temperature()
            self.labels.audit = audit.state
            return counts

    def accuracy(self) -> Interval:
        """Return bounds of the accuracy of all that was served, guaranteed by labels; everything before the first."""
        return self.audit.accuracy()

    def gain(self) -> Interval:
        """Return bounds of that accuracy minus the source's on the same samples, guaranteed by labels."""
        return self.audit.gain()

    def fit_holdout(self, batches: Iterable[SourceBatch]) -> None:
        """Fit the scale of the anchor to held-out source data, and show them to the estimators."""
        shown = list(batches)
        super().fit_holdout(shown)
        if shown:
            with torch.inference_mode(False), torch.no_grad(), self._transactions.exclusive():
                self._guard.fit_scale([inputs_and_labels(batch) for batch in shown])

    def reset(self) -> None:
        """Return to the state at construction; labels, their audit and the fitted temperature stay."""
        with self._transactions.exclusive():
            super().reset()
            self.labels.reset_state()

    @property
    def _guard(self) -> Guard:
        assert isinstance(self.method, Guard)
        return self.method

    def _fit_temperature(self) -> None:
        if len(self.labels.answered) >= LABELS_TO_FIT:
            logits = torch.stack([row for row, _ in self.labels.answered])
            known = torch.tensor([label for _, label in self.labels.answered], device=logits.device)
            self._guard.scale.fit(self._guard.judge, [logits], [known])

    def _estimate_of(self, verdict: Verdict) -> Estimate:
        window, scale = self._guard.window, self._guard.scale
        self.labels.beliefs = latest(self.labels.beliefs, verdict.right, window)
        self.labels.gains = latest(self.labels.gains, verdict.right - verdict.source_right, window)
        gain = round(float(self.labels.gains.mean()), 6)
        unknown, recent = scale.unknown(follows=self._guard.compares), self._guard.judge.recent
        if verdict.shift > TOO_FAR:
            unknown = f"the inputs are too far from the source data (divergence {verdict.shift:.2f}, over {TOO_FAR})"
        if unknown is not None or recent is None:  # a paused guard has seen nothing yet
            return Estimate(math.nan, unknown=unknown or "no batch was adapted to yet", gain=gain)
        found = scale.judge(self.labels.beliefs, verdict.weighed, recent, follows=self._guard.follows)
        return Estimate(found.value, found.low, found.high, gain=gain)


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
    **guarding: Any,
) -> GuardedModel:
    """Return an adapted model that serves source, anchor and a network adapted by `method` together.

    `method` is a method or recipe by name, and "auto" trains nothing; the recovery of a recipe acts on the adapted
    network. `options` are those that `adapt` takes for it, further keywords those of the guard
    (`docs/methods/guard.md`). `budget` is the share of samples whose label is asked for (`step.wants_label`);
    `feedback` takes labels, and `accuracy` and `gain` return bounds that hold at all times at once with probability
    `confidence`. Without labels everything is an estimate. `holdout` are held-out source data, best with labels, which
    fit the scale of the estimates, and `clean_accuracy` is the known accuracy of the network on such data; the other
    arguments are those of `adapt`.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> model = guard(tiny_resnet(), "tent", budget=0.5)
    >>> step = model.step(torch.rand(8, 3, 32, 32))
    >>> for place, wanted in zip(step.ids, step.wants_label):
    ...     if wanted:
    ...         counted = model.feedback(place, label=3)
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
        build=GuardedModel,
    )
    return built.asking(budget=budget, confidence=confidence, patience=PATIENCE)
