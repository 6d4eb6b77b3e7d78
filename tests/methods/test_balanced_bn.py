"""Balanced BN: every class counts equally, regardless of its frequency in the stream."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.balanced_norm import BalancedStatistics, given_labels
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

CLASSES = 5


def layer(class_momentum: float, agnostic_share: float = 0.0) -> BalancedStatistics:
    norm = nn.BatchNorm2d(3, dtype=torch.float64).eval()
    norm.running_mean, norm.running_var = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.5, 2.0]], dtype=torch.float64)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([2.0, 1.0, 0.5]))
        norm.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
    return BalancedStatistics(
        norm, num_classes=CLASSES, class_momentum=class_momentum, agnostic_share=agnostic_share
    ).requires_grad_(False)


def samples(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 + 1


def moved_one_class_at_a_time(
    norm: BalancedStatistics, features: Tensor, labels: Tensor, momentum: float, agnostic: float
) -> tuple[Tensor, Tensor]:
    """The paper's update with the official code's cap, as a loop over the classes of the batch."""
    mean, var = norm.class_mean.clone(), norm.class_var.clone()
    shifts, gains, rates = [], [], []
    for label in labels.unique():
        own = features[labels == label]
        step = min(momentum, 1 / len(own))
        away = own - norm.class_mean[label].view(-1, 1, 1)
        shifts.append(step * away.mean((2, 3)).sum(0))
        gains.append(step * (away**2).mean((2, 3)).sum(0) - shifts[-1] ** 2)
        rates.append(step * len(own))
        mean[label] += (1 - agnostic) * shifts[-1]
        var[label] += (1 - agnostic) * (gains[-1] - rates[-1] * norm.class_var[label])
    mean += agnostic * sum(shifts) / len(shifts)
    var += agnostic * (sum(gains) - sum(rates) * var) / len(shifts)
    return mean, var


@pytest.mark.parametrize("classes", [(0, 0, 0, 0, 2, 2, 3), (3, 0, 4)], ids=["shared", "one each"])
@pytest.mark.parametrize(("momentum", "agnostic"), [(0.05, 0.0), (0.4, 0.0), (0.4, 0.3), (0.1, 1.0)])
def test_a_learning_pass_follows_the_equations(momentum: float, agnostic: float, classes: tuple[int, ...]) -> None:
    norm, labels = layer(momentum, agnostic), torch.tensor(classes)
    for seed in range(2):
        features = samples(len(classes), seed)
        mean, var = moved_one_class_at_a_time(norm, features, labels, momentum, agnostic)
        with given_labels(norm, labels):
            output = norm(features)
        torch.testing.assert_close(norm.class_mean, mean)
        torch.testing.assert_close(norm.class_var, var)
        mixed = var.mean(0) + mean.var(0)
        expected = (features - mean.mean(0).view(-1, 1, 1)) / (mixed.view(-1, 1, 1) + norm.eps).sqrt()
        torch.testing.assert_close(output, expected * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1))
        torch.testing.assert_close(norm(features), output)  # a prediction uses the stored statistics


def test_the_gradient_flows_through_what_the_batch_has_changed() -> None:
    def learn(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        norm = layer(0.4, 0.3)
        with given_labels(norm, torch.tensor([0, 0, 0, 1])):
            normalised: Tensor = torch.func.functional_call(norm, {"weight": weight, "bias": bias}, features)
        return normalised

    weight, bias = torch.rand(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    arguments = [part.requires_grad_() for part in (samples(4), weight, bias)]
    assert torch.autograd.gradcheck(learn, arguments)


def test_a_rare_class_counts_as_much_as_a_common_one() -> None:
    norm = layer(0.2)
    labels = torch.tensor([0] * 12 + [1, 2, 3, 4])
    features = samples(16) * 0.1 + labels.view(-1, 1, 1, 1)
    with given_labels(norm, labels):
        for _ in range(100):
            norm(features)
    torch.testing.assert_close(norm.mean, torch.full((3,), 2.0).double(), atol=0.2, rtol=0)  # the stream's is 0.7


def test_one_share_for_all_keeps_the_classes_equal() -> None:
    norm = layer(0.1, 1.0)
    with given_labels(norm, torch.tensor([0, 0, 1, 4])):
        norm(samples(4))
    assert not torch.equal(norm.mean, norm.source_mean)
    torch.testing.assert_close(norm.class_mean, norm.mean.expand(CLASSES, -1))


def test_paused_layers_and_non_finite_batches_learn_nothing() -> None:
    norm = layer(0.1)
    before = norm.class_mean.clone()
    for frozen, features in ((True, samples(4)), (False, samples(4) * float("inf"))):
        norm.paused = frozen
        with given_labels(norm, torch.tensor([0, 1, 2, 3])):
            norm(features)
        assert torch.equal(norm.class_mean, before)
    assert norm.labelled is None


def test_the_prediction_comes_before_the_update() -> None:
    inputs = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model, source = adapt(tiny_resnet(), "balanced_bn"), adapt(tiny_resnet(), "source")
    step = model.step(inputs)
    assert torch.equal(step.logits, source(inputs))
    assert (step.forwards, step.backwards) == (2.0, 0.0)
    assert not torch.equal(model(inputs), step.logits)
