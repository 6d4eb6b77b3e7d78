"""SLR: exact likelihood ratios, the running average, and the layers that are not trained."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.losses import soft_likelihood_ratio
from holdfast.methods.slr import Slr
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet, tiny_vit

INPUTS = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(loss.sum(), logits)[0]


def test_the_stable_ratio_is_the_plain_formula_where_that_can_be_evaluated() -> None:
    logits = (3 * torch.randn(32, 10, dtype=torch.double, generator=torch.Generator().manual_seed(0))).requires_grad_()
    probs = logits.softmax(1)
    plain = -(probs * (probs / (1 - probs)).log()).sum(1)
    stable = soft_likelihood_ratio(logits)
    torch.testing.assert_close(stable, plain)
    torch.testing.assert_close(gradient(stable, logits), gradient(plain, logits))


def test_the_gradient_does_not_fade_and_nothing_overflows() -> None:
    inf = float("inf")
    rows = [[200.0, 0.0, 0.0], [1e4, -1e4, 0.0], [0.0, 0.0, 0.0], [-inf, 2.0, 1.0], [-inf, -inf, 0.0]]
    logits = torch.tensor(rows, requires_grad=True)
    ratios = soft_likelihood_ratio(logits)
    slopes = gradient(ratios, logits)
    assert torch.isfinite(ratios).all()
    assert torch.isfinite(slopes).all()
    torch.testing.assert_close(slopes[0], torch.tensor([-1.0, 0.5, 0.5]))
    assert float(ratios[0].detach()) == pytest.approx(math.log(2) - 200, rel=1e-5)


def test_the_clipped_ratio_has_no_gradient_through_what_was_cut() -> None:
    logits = torch.tensor([[9.0, 0.0, 1.0], [1.0, 0.0, 0.5]], dtype=torch.double, requires_grad=True)
    probs = logits.softmax(1)
    cut = torch.where(probs > 0.99, torch.full_like(probs, 0.99), probs)
    expected = -(cut * (cut / (1 - cut) + 1e-5).log()).sum(1)
    clipped = soft_likelihood_ratio(logits, clip=0.99, eps=1e-5)
    torch.testing.assert_close(clipped, expected)
    torch.testing.assert_close(gradient(clipped, logits), gradient(expected, logits))


def test_the_loss_is_diversity_and_a_little_confidence() -> None:
    model = adapt(tiny_resnet(), "slr", lr=0.0)
    running = torch.full((10,), 0.1)
    for inputs in (INPUTS, INPUTS.flip(0) ** 2):
        step = model.step(inputs)
        running = 0.9 * running + 0.1 * step.logits.softmax(1).mean(0)
        diversity = (running * (10 * running).log()).sum()
        expected = diversity + 0.025 * soft_likelihood_ratio(step.logits).mean()
        assert step.loss == pytest.approx(float(expected), rel=1e-5)
    assert isinstance(model.method, Slr)
    torch.testing.assert_close(model.method.mean_probs, running)


def test_a_class_that_faded_away_does_not_stop_the_learning() -> None:
    model = adapt(tiny_resnet(), "slr")
    method = model.method
    assert isinstance(method, Slr)
    method.mean_probs = torch.eye(10)[0]
    logits = torch.full((2, 10), -1e4).index_fill(1, torch.tensor([0]), 0.0).requires_grad_()
    assert torch.isfinite(gradient(method.loss(INPUTS[:2], logits), logits)).all()


@pytest.mark.parametrize(
    ("network", "frozen"),
    [(tiny_resnet(), ("stages.1.",)), (tiny_vit(), ("blocks.1.", "norm."))],
    ids=["resnet", "vit"],
)
def test_layers_from_the_last_stage_on_are_frozen(network: nn.Module, frozen: tuple[str, ...]) -> None:
    model = adapt(network, "slr")
    trained = {name for name, weights in model.method.model.module.named_parameters() if weights.requires_grad}
    affine = {name for name, _ in network.named_parameters() if "norm" in name or "shortcut.1" in name}
    assert trained == {name for name in affine if not name.startswith(frozen)}
    everything = adapt(network, "slr", frozen_layers=None)
    assert len(everything.method.trained) == len(affine)


def test_of_a_chain_without_stages_the_last_layer_is_frozen() -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    model = adapt(network.eval(), "slr", example=torch.zeros(2, 4))
    names = [name for name, weights in model.method.model.module.named_parameters() if weights.requires_grad]
    assert names == ["1.weight", "1.bias"]


class Shifted(nn.Module):
    """Return its inputs as logits, shifted by a normalisation layer."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.GroupNorm(1, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.shift.bias


def test_diversity_keeps_the_most_frequent_class_from_taking_all() -> None:
    logits = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)) + torch.tensor([0.5, 0.0, 0.0, 0.0])

    def share_of_first(probs_momentum: float) -> float:
        options = {"frozen_layers": None, "lr": 0.05, "probs_momentum": probs_momentum}
        model = adapt(Shifted(), "slr", example=logits[:2], **options)
        for _ in range(200):
            predictions = model(logits)
        return float((predictions.argmax(1) == 0).float().mean())

    assert share_of_first(1.0) > 0.9  # a constant average has no gradient: only the confidence term acts
    assert share_of_first(0.9) < 0.5
