"""Confidence: the default is no more wrong about itself than the network, and less so under a shift."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import holdfast
from holdfast.models import digits_resnet, digits_vit

SAMPLES = 320
NETWORKS = [pytest.param(digits_resnet, id="resnet"), pytest.param(digits_vit, id="vit")]


def calibration_error(probabilities: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Return the mean distance of confidence from accuracy over equal intervals of confidence."""
    confidence, predicted = probabilities.double().max(1)
    right = (predicted == labels).double()
    which = (bins * confidence).long().clamp_max(bins - 1)
    gaps = [((which == index).double() * (confidence - right)).sum().abs() for index in range(bins)]
    return float(torch.stack(gaps).sum() / len(labels))


def served(build: Callable[[], nn.Module], source: list[Tensor], inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probabilities of the default and of the network itself."""
    model = holdfast.adapt(build(), source=source)
    pairs = [(model(batch), model.source(batch)) for batch in inputs.split(64)]
    ours, plain = (torch.cat(part).softmax(1) for part in zip(*pairs, strict=True))
    return ours, plain


def test_the_calibration_error_by_hand() -> None:
    probabilities = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]])
    assert calibration_error(probabilities, torch.tensor([0, 1, 0, 1])) == pytest.approx((2 * 0.4 + 2 * 0.4) / 4)


@pytest.mark.parametrize("build", NETWORKS)
def test_on_clean_inputs_confidence_stays(
    build: Callable[[], nn.Module], digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, labels = digits[0][:SAMPLES], digits[1][:SAMPLES]
    ours, plain = served(build, source, inputs)
    assert calibration_error(ours, labels) <= calibration_error(plain, labels) + 0.01
    assert abs(float(ours.amax(1).mean() - plain.amax(1).mean())) < 0.003
    assert float((ours.argmax(1) == plain.argmax(1)).double().mean()) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("build", NETWORKS)
def test_under_shifts_confidence_is_less_wrong_than_that_of_the_network(
    build: Callable[[], nn.Module], digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, labels = digits[0][:SAMPLES], digits[1][:SAMPLES]
    noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(0))
    shifts = {
        "noise": (inputs + 0.2 * noise).clamp(0, 1),
        "dark": 0.4 * inputs,
        "bright": (inputs + 0.3).clamp(0, 1),
        "grey": 0.3 * (inputs - 0.5) + 0.5,
        "blurred": F.avg_pool2d(inputs, 5, 1, 2),
    }
    errors = {
        name: tuple(calibration_error(part, labels) for part in served(build, source, shifted))
        for name, shifted in shifts.items()
    }
    ours, plain = (sum(pair[index] for pair in errors.values()) / len(errors) for index in (0, 1))
    assert ours < 0.8 * plain
    assert all(pair[0] <= pair[1] + 0.02 for pair in errors.values()), errors
