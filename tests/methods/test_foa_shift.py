"""FOA-shift moves the mean of the test features to that of the source, one batch late."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_vit

INPUTS = torch.randn(48, 6, generator=torch.Generator().manual_seed(0)) + 3


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4)).eval()


@pytest.fixture
def source() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, 6, generator=generator) - 1 for size in (16, 8)]


def test_the_running_mean_is_of_earlier_batches(network: nn.Module, source: list[Tensor]) -> None:
    model = adapt(network, "foa_shift", example=INPUTS, source=source)
    of_source, running = torch.cat(source).mean(0), None
    for batch in INPUTS.split(16):
        shift = 0 if running is None else of_source - running
        torch.testing.assert_close(model(batch), network[1](batch + shift).detach())
        running = batch.mean(0) if running is None else 0.9 * running + 0.1 * batch.mean(0)


def test_a_constant_shift_is_taken_out_from_the_second_batch_on(network: nn.Module, source: list[Tensor]) -> None:
    clean = torch.cat(source)
    model = adapt(network, "foa_shift", example=clean, source=source)
    model(clean + 5)
    torch.testing.assert_close(model(clean + 5), network[1](clean).detach(), atol=1e-4, rtol=1e-4)


def test_a_reset_forgets_the_test_features_and_keeps_those_of_the_source(
    network: nn.Module, source: list[Tensor]
) -> None:
    model = adapt(network, "foa_shift", example=INPUTS, source=source)
    first, second = model(INPUTS), model(INPUTS)
    model.reset()
    assert torch.equal(model(INPUTS), first)
    assert torch.equal(model(INPUTS), second)


def test_paused_it_predicts_with_the_current_shift(network: nn.Module, source: list[Tensor]) -> None:
    model = adapt(network, "foa_shift", example=INPUTS, source=source)
    model(INPUTS[:16])
    expected = network[1](INPUTS[16:] + torch.cat(source).mean(0) - INPUTS[:16].mean(0)).detach()
    for _ in range(2):
        torch.testing.assert_close(model.predict(INPUTS[16:]).logits, expected)
    torch.testing.assert_close(model.export()(INPUTS[16:]), expected)


def test_a_batch_that_is_predicted_now_enters_the_mean_when_it_is_finished(
    network: nn.Module, source: list[Tensor]
) -> None:
    model = adapt(network, "foa_shift", example=INPUTS, source=source)
    pending = model.begin(INPUTS)
    assert not model.method.centre.any()
    pending.finish()
    torch.testing.assert_close(model.method.centre, INPUTS.mean(0) - torch.cat(source).mean(0))


def test_a_transformer_needs_one_pass() -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    step = adapt(tiny_vit(), "foa_shift", source=[inputs]).step(inputs)
    assert (step.forwards, step.backwards) == (1.0, 0.0)


def test_without_source_inputs_it_is_refused(network: nn.Module) -> None:
    with pytest.raises(ValueError, match="needs unlabelled source inputs"):
        adapt(network, "foa_shift", example=INPUTS)
    with pytest.raises(ValueError, match="source holds no batch"):
        adapt(network, "foa_shift", example=INPUTS, source=[])
