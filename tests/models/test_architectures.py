"""Networks of every family: nothing changes by wrapping, every layer is accounted for, and every method takes a step.

timm is imported beside a stand-in for torchvision (`fake_torchvision.py`), whose wheels do not fit this torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from architectures import ARCHITECTURES, inputs, network
from torch import nn

from holdfast.anchor import is_referred
from holdfast.blocks.norm import BatchStatistics, NormLayer, source_statistics
from holdfast.blocks.wrapping import Restated, account, has_batch_norm, replace_batch_norm
from holdfast.methods import METHODS
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.outputs import logits_of
from holdfast.testing.methods import check_batch_of_one, check_exact_reset, check_export, check_predictions
from holdfast.testing.trial import Trial

DIFFERENT = ("resnetv2", "hf resnet", "vit", "frozen batch norm", "mapping output", "no norm", "hf wav2vec2")


def crossed() -> list[Any]:
    """Pair every architecture with every method; by default each method has two of the most different networks."""
    return [
        pytest.param(name, method, marks=[] if name in chosen else [pytest.mark.slow])
        for index, method in enumerate(METHODS.names())
        for chosen in [(DIFFERENT[index % 7], DIFFERENT[(index + 3) % 7])]
        for name in ARCHITECTURES
    ]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def adapted_or_refused(name: str, method: str) -> AdaptedModel | None:
    """Return the adapted network, or None where the method says before the first batch why it does not fit."""
    given = ARCHITECTURES[name]
    kind = METHODS[method]
    source = [inputs(name, 8)] if kind.needs_source or kind.uses_reference else None
    try:
        return adapt(network(name), method, example=inputs(name), output=given.output, source=source)
    except ValueError as error:
        if not any(word in str(error) for word in ("choose", "pass")):
            raise
        return None


def test_wrapping_changes_nothing_and_accounts_for_every_layer(name: str) -> None:
    source = network(name)
    layers = account(source)
    prepared = copy.deepcopy(source)
    treated = replace_batch_norm(prepared, BatchStatistics)
    norms = [
        part for part in source.modules() if "Norm" in type(part).__name__ and list(part.parameters(recurse=False))
    ]
    assert {id(part) for part in norms} <= {id(source.get_submodule(entry.name)) for entry in layers}
    assert all(entry.reason and entry.treatment != "refused" for entry in layers)
    by_treatment = [sum(entry.treatment == treatment for entry in layers) for treatment in ("replaced", "wrapped")]
    assert treated == sum(by_treatment) == sum(isinstance(part, NormLayer) for part in prepared.modules())
    assert sum(isinstance(part, Restated) for part in prepared.modules()) == by_treatment[1]
    with torch.no_grad(), source_statistics(prepared):
        batch, output = inputs(name), ARCHITECTURES[name].output
        expected, logits = (logits_of(net(batch), len(batch), output) for net in (source, prepared))
    assert torch.equal(logits, expected)
    assert logits.std() > 0


def test_a_step_that_trains(name: str) -> None:
    model = adapted_or_refused(name, "tent")
    if model is not None:
        step = model.step(inputs(name))
        assert step.skipped is None
        assert torch.isfinite(step.logits).all()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in DIFFERENT else [pytest.mark.slow]) for name in ARCHITECTURES]
)
def test_the_default_follows_inputs_from_source_samples(name: str) -> None:
    batch, output = inputs(name), ARCHITECTURES[name].output
    model = adapt(network(name), source=[inputs(name, 8)], example=batch, output=output)
    assert is_referred(model.method.predictor)
    with torch.no_grad():
        expected = logits_of(network(name)(batch), len(batch), output)
    step = model.step(0.5 * batch + 0.2)
    assert step.skipped is None
    assert torch.isfinite(step.logits).all()
    assert 0 < step.gauges["shift"] < torch.inf
    assert torch.equal(model.source(batch), expected)


@pytest.mark.parametrize(("name", "method"), crossed())
def test_a_step_of_every_method(name: str, method: str) -> None:
    model = adapted_or_refused(name, method)
    if model is None:
        assert not (method == "batch_norm" and has_batch_norm(network(name)))
    else:
        assert torch.isfinite(model(inputs(name))).all()


@pytest.mark.parametrize("name", ["resnetv2", "frozen batch norm", "hf convnext"])
@pytest.mark.parametrize("check", [check_predictions, check_exact_reset, check_batch_of_one, check_export])
def test_cheap_contracts_hold_on_wrapped_networks(name: str, check: Callable[..., None]) -> None:
    build = partial(adapt, network(name), "tent", example=inputs(name))
    check(Trial(build, [inputs(name), inputs(name).flip(0)]))


def test_there_are_more_than_25_families() -> None:
    assert len(ARCHITECTURES) > 30
    assert isinstance(network("no norm"), nn.Module)
