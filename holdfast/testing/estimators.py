"""Contracts of an estimator: estimates in range, state that survives saving, no effect on the predictions."""

from __future__ import annotations

import copy
import math
import tempfile
from dataclasses import astuple
from pathlib import Path

import torch
from torch import nn

from holdfast.estimators import ESTIMATORS, Estimator
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.records import Estimate
from holdfast.testing.comparison import Batches, assert_equal, hooks_of, weights_of
from holdfast.testing.contract import contract


def check_estimator(estimator: str | Estimator, model: nn.Module, batches: Batches, *, method: str = "tent") -> None:
    """Run every contract of an estimator and print a line for each; one that fails raises an AssertionError.

    Args:
        estimator: a name, or one that is built.
        model: a network.
        batches: of inputs.
        method: name of the method that is estimated.
    """
    name = estimator if isinstance(estimator, str) else ESTIMATORS.name_of(type(estimator))
    holdout = [(batch, torch.zeros(len(batch), dtype=torch.long)) for batch in batches[:1]]

    def build(watching: str | Estimator | None) -> AdaptedModel:
        return adapt(model, method, estimator=copy.deepcopy(watching), source=batches[:1], holdout=holdout)

    watched, again, alone = build(estimator), build(estimator), build(None)
    hooks = hooks_of(watched)
    state = torch.get_rng_state()
    seen = (*batches, batches[0][:1])
    with contract("An estimate lies between 0 and 1, or says why it is unknown."):
        steps = [watched.step(batch) for batch in seen]
        for step in steps:
            _check_estimate(name, step.estimates[name])
    with contract("No random number is drawn from the global generator."):
        assert torch.equal(state, torch.get_rng_state()), f"{name} draws from the global generator"
    with contract("Predictions, weights and hooks are those of a model without it."):
        for batch, step in zip(seen, steps, strict=True):
            assert_equal([alone(batch)], [step.logits], f"answers beside {name}")
        assert_equal(weights_of(alone), weights_of(watched), f"weights beside {name}")
        assert hooks_of(watched) == hooks, f"{name} left hooks"
    with contract("Saved and loaded, it estimates the same."):
        with tempfile.TemporaryDirectory() as folder:
            watched.save(Path(folder) / "state.safetensors")
            again.load(Path(folder) / "state.safetensors")
        expected, actual = (model.step(batches[0]).estimates[name] for model in (watched, again))
        same = repr(astuple(expected)) == repr(astuple(actual))  # by text, since nan differs from nan
        assert same, f"{name} forgot its state: {expected} became {actual}"


def _check_estimate(name: str, estimate: Estimate) -> None:
    """An accuracy lies between 0 and 1 and inside its interval; one that is unknown is nan and says why."""
    assert isinstance(estimate, Estimate), f"{name} returned {estimate!r}; return holdfast.records.Estimate(value, …)"
    if estimate.unknown is not None:
        assert math.isnan(estimate.value), f"{name} gave {estimate.value} and called it unknown: {estimate.unknown}"
        assert estimate.unknown.strip(), f"{name} gives no reason for an unknown accuracy"
        return
    assert 0.0 <= estimate.value <= 1.0, f"{name} estimated {estimate.value}, which is not between 0 and 1"
    assert (estimate.low is None) == (estimate.high is None), f"{name} gave one end of an interval: {estimate}"
    if estimate.low is not None and estimate.high is not None:
        inside = 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
        assert inside, f"{name}: {estimate} is not inside its interval"
