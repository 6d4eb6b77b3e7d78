"""Scopes of a reset: everything, or what AETTA's code returns."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from holdfast.benchmark import load_suite
from holdfast.blocks.sample_memory import Memory
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import recipe_of
from holdfast.recovery import RECOVERIES
from holdfast.recovery._base import Resetting

SCOPED = {"episodic", "periodic", "oracle", "loss_collapse", "estimate_drop"}


def adapted(method: str, scope: str, **options: Any) -> AdaptedModel:
    """Return a model that has adapted to two batches and was then reset by its recovery."""
    torch.manual_seed(0)
    batches = torch.rand(2, 64, 3, 16, 16)
    source = [batches[0]] if method == "eata" else None
    model = adapt(tiny_resnet(), method, recovery="episodic", scope=scope, source=source, **options)
    for batch in batches:
        model.step(batch)
    assert isinstance(model.recovery, Resetting)
    model.recovery.reset(model.method)
    return model


@pytest.mark.parametrize("method", ["rotta", "sotta"])
def test_memories_survive_the_aetta_scope_only(method: str) -> None:
    options: dict[str, Any] = {"min_confidence": 0.0} if method == "sotta" else {}
    full, aetta = (adapted(method, scope, **options).method.memory for scope in ("full", "aetta"))
    assert isinstance(full, Memory)
    assert isinstance(aetta, Memory)
    assert len(full) == 0
    assert len(aetta) > 0


def test_the_mean_prediction_of_eata_survives_the_aetta_scope_only() -> None:
    options = {"entropy_margin": 1.0, "redundancy_margin": 1.0}
    full, aetta = (adapted("eata", scope, **options).method for scope in ("full", "aetta"))
    assert full.mean_probs is None
    assert aetta.mean_probs is not None
    for parameter, source in zip(aetta.trained, aetta.source_weights(), strict=True):
        assert torch.equal(parameter, source)


def test_momentum_survives_where_a_method_says_so() -> None:
    for keep in (False, True):
        optimizer = adapted("sotta", "aetta", min_confidence=0.0, keep_momentum=keep).method.stepper
        assert optimizer is not None
        assert bool(optimizer.state) == keep


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="must be 'full' or 'aetta', got 'some'"):
        adapt(tiny_resnet(), "tent", recovery="periodic", scope="some")


def test_the_published_table_resets_as_the_official_code() -> None:
    """AETTA's Table 3: every whole reset keeps memories and means, and MRS keeps its average on all six methods."""
    jobs = load_suite("recovery", scale="paper").jobs()
    mrs = set()
    for job in jobs:
        recovery = job.resolved.build_recovery(job.resolved.presets.get(job.resolved.preset or ""))
        name = RECOVERIES.name_of(type(recovery))
        if name in SCOPED:
            assert recovery.scope == "aetta", job.recipe.label
        if name == "loss_collapse":
            assert recovery.keep_average
            mrs.add(recipe_of(job.recipe.name).method)
    assert mrs == {"tent", "eata", "sar", "cotta", "rotta", "sotta"}


@pytest.mark.parametrize("suite", ["aetta-fully", "aetta-continual", "aetta-sensitivity", "recovery"])
def test_eata_decays_its_weights_on_cifar_as_the_official_code(suite: str) -> None:
    for scale in (scale for scale in load_suite(suite).scales if scale.startswith("paper")):
        jobs = [job for job in load_suite(suite, scale=scale).jobs() if job.recipe.name == "eata"]
        assert jobs
        for job in jobs:
            decay = job.resolved.presets[job.resolved.preset or ""].get("weight_decay", 0.0)
            assert decay == (0.0 if "imagenet" in scale else 5e-4)
