"""ETA and EATA follow the paper: sample filters, sample weights, Fisher penalty."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from holdfast.methods.eata import Eata, Eta
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel


class Given(nn.Module):
    """Return its inputs as logits, through a normalisation layer that is the identity at first."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, classes, affine=True)
        self.classes = classes

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + 0 * self.norm(inputs) + self.norm.bias


def logits_with(entropies_low: int, entropies_high: int, classes: int = 10) -> Tensor:
    sure = 8.0 * nn.functional.one_hot(torch.arange(entropies_low) % classes, classes)
    return torch.cat([sure.float(), torch.zeros(entropies_high, classes)])


def build(**options: float) -> tuple[AdaptedModel, Eta]:
    model = adapt(Given(10), "eta", example=torch.zeros(2, 10), **options)
    assert isinstance(model.method, Eta)
    return model, model.method


def test_uncertain_samples_are_left_out() -> None:
    model, method = build(redundancy_margin=2.0)
    model(logits_with(3, 5))
    assert (method.reliable_samples, method.learnt_samples) == (3, 3)


def test_nothing_reliable_means_no_step_and_no_loss() -> None:
    model, method = build()
    step = model.step(logits_with(0, 6))
    assert step.loss is None
    assert step.backwards == 0
    assert method.mean_probs is None
    assert torch.equal(method.trained[1].detach(), torch.zeros(10))


def test_redundant_samples_are_left_out_from_the_second_batch_on() -> None:
    model, method = build(redundancy_margin=0.5)
    same = 8.0 * nn.functional.one_hot(torch.zeros(4, dtype=torch.long), 10).float()
    model(same)
    assert method.learnt_samples == 4
    model(same)
    assert method.learnt_samples == 4  # equal to the first batch: redundant
    model(8.0 * nn.functional.one_hot(torch.full((4,), 7), 10).float())
    assert method.learnt_samples == 8


def test_mean_probs_move_by_a_tenth() -> None:
    model, method = build(redundancy_margin=2.0, lr=0.0)
    first, second = logits_with(2, 0), logits_with(4, 0)[2:]
    model(first)
    model(second)
    expected = 0.9 * first.softmax(1).mean(0) + 0.1 * second.softmax(1).mean(0)
    torch.testing.assert_close(method.mean_probs, expected)


def test_mean_probs_are_those_of_the_samples_that_were_trained_on() -> None:
    model, method = build(redundancy_margin=2.0)
    logits = logits_with(2, 3)
    model(logits)
    torch.testing.assert_close(method.mean_probs, logits[:2].softmax(1).mean(0))


def test_the_loss_is_the_weighted_mean_over_the_selected() -> None:
    model, _ = build(redundancy_margin=2.0)
    logits = torch.cat([logits_with(2, 1), 3 * logits_with(1, 0)])
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    margin = 0.4 * math.log(10)
    chosen = entropy[entropy < margin]
    expected = ((margin - chosen).exp() * chosen).mean()
    loss = model.step(logits).loss
    assert loss == pytest.approx(float(expected), rel=1e-5)


def test_the_penalty_holds_important_weights_back() -> None:
    inputs = torch.randn(64, 10, generator=torch.Generator().manual_seed(0)) * 3

    def moved(fisher_weight: float) -> float:
        options = {"fisher_weight": fisher_weight, "redundancy_margin": 2.0, "lr": 0.01, "momentum": 0.0}
        model = adapt(Given(10), "eata", source=[inputs], example=inputs[:2], **options)
        assert isinstance(model.method, Eata)
        for _ in range(100):
            model(inputs)
        return float(model.method.trained[1].detach().norm())

    assert moved(20_000.0) < 0.5 * moved(0.0)


def test_fisher_is_the_mean_of_squared_batch_gradients_and_survives_a_reset() -> None:
    inputs = torch.randn(12, 10, generator=torch.Generator().manual_seed(0))
    model = adapt(Given(10), "eata", source=inputs.split(6), example=inputs[:2])
    assert isinstance(model.method, Eata)
    gradients = []
    for batch in inputs.split(6):
        probs = batch.softmax(1)
        gradients.append((probs - nn.functional.one_hot(batch.argmax(1), 10)).mean(0))  # d CE / d bias
    expected = torch.stack(gradients).square().mean(0)
    model.reset()
    assert model.method.fisher is not None
    torch.testing.assert_close(model.method.fisher[10:], expected, rtol=1e-4, atol=1e-8)
