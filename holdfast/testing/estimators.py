"""Contracts of an estimator: estimates in range, state that survives saving, no effect on the predictions."""

from __future__ import annotations

import copy
import math
import tempfile
from pathlib import Path

import torch
from torch import nn

from holdfast.adapted import AdaptedModel
from holdfast.estimators import ESTIMATORS, Estimator
from holdfast.recipes import adapt
from holdfast.records import Estimate
from holdfast.testing.comparison import Batches, assert_equal, weights_of

__all__ = ["check_estimator"]


def check_estimator(estimator: str | Estimator, model: nn.Module, batches: Batches, *, method: str = "tent") -> None:
    """An estimate lies in 0 … 1 or says why it is unknown, is remade after loading, and no answer changes for it."""
    name = estimator if isinstance(estimator, str) else ESTIMATORS.name_of(type(estimator))
    holdout = [(batch, torch.zeros(len(batch), dtype=torch.long)) for batch in batches[:1]]

    def build(watching: str | Estimator | None) -> AdaptedModel:
        return adapt(model, method, estimator=copy.deepcopy(watching), source=batches[:1], holdout=holdout)

    watched, again, alone = build(estimator), build(estimator), build(None)
    state = torch.get_rng_state()
    for batch in (*batches, batches[0][:1]):
        step = watched.step(batch)
        _check_estimate(name, step.estimates[name])
        assert_equal([alone(batch)], [step.logits], f"answers beside {name}")
    assert torch.equal(state, torch.get_rng_state()), f"{name} draws from the global generator"
    assert_equal(weights_of(alone), weights_of(watched), f"weights beside {name}")
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in watched.modules()), f"{name} left hooks"
    with tempfile.TemporaryDirectory() as folder:
        watched.save(Path(folder) / "state.safetensors")
        again.load(Path(folder) / "state.safetensors")
    expected, found = (model.step(batches[0]).estimates[name] for model in (watched, again))
    assert repr(expected) == repr(found), f"{name} forgot its state: {expected} became {found}"  # nan is not nan


def _check_estimate(name: str, estimate: float) -> None:
    """An accuracy lies between 0 and 1 and inside its interval; one that is unknown is nan and says why."""
    if isinstance(estimate, Estimate) and estimate.unknown is not None:
        assert math.isnan(estimate), f"{name} estimated {estimate}, and that it is unknown: {estimate.unknown}"
        assert estimate.unknown.strip(), f"{name} does not know the accuracy, and does not say why"
        return
    assert 0.0 <= estimate <= 1.0, f"{name} estimated {estimate}"
    if isinstance(estimate, Estimate) and estimate.low is not None and estimate.high is not None:
        assert 0.0 <= estimate.low <= estimate <= estimate.high <= 1.0, f"{name}: {estimate} is not in its interval"
