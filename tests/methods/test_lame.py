"""LAME equals the paper's formulas, and stays finite where they are undefined."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.methods.lame import predict_jointly
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

AFFINITIES = ("knn", "rbf", "linear")


def sample(samples: int, width: int = 5, classes: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(samples)
    logits = 2 * torch.randn(samples, classes, dtype=torch.double, generator=generator)
    return logits, torch.rand(samples, width, dtype=torch.double, generator=generator)


def written_out(logits: Tensor, features: Tensor, affinity: str, neighbours: int = 5) -> Tensor:
    """Return probabilities by the published steps, including differences and energy."""
    features = F.normalize(features, dim=1)
    distances = (features[:, None] - features[None]).norm(dim=2)
    if affinity == "knn":
        order = distances.argsort(1)[:, 1 : neighbours + 1]
        weights = torch.zeros_like(distances).scatter(1, order, 1.0)
    elif affinity == "rbf":
        width = distances.sort(1).values[:, min(neighbours, len(features)) - 1].mean()
        weights = (-(distances**2) / (2 * width**2)).exp()
    else:
        weights = features @ features.T
    unary = -(logits.softmax(1) + 1e-10).log()
    predictions, previous = (-unary).softmax(1), float("inf")
    for step in range(100):
        pairwise = weights @ predictions
        predictions = (pairwise - unary).softmax(1)
        energy = float(
            (unary * predictions - pairwise * predictions + predictions * predictions.clamp_min(1e-20).log()).sum()
        )
        if step > 1 and abs(energy - previous) <= 1e-8 * abs(previous):
            break
        previous = energy
    return predictions


@pytest.mark.parametrize("affinity", AFFINITIES)
@pytest.mark.parametrize("samples", [2, 4, 30])
def test_predictions_equal_the_formulas(affinity: str, samples: int) -> None:
    logits, features = sample(samples)
    predictions = predict_jointly(logits, features, affinity, 5).exp()  # type: ignore[arg-type]
    torch.testing.assert_close(predictions, written_out(logits, features, affinity), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("affinity", AFFINITIES)
def test_a_batch_of_one_is_predicted_by_the_source_alone(affinity: str) -> None:
    inputs = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    expected = tiny_resnet()(inputs).log_softmax(1)
    torch.testing.assert_close(adapt(tiny_resnet(), "lame", affinity=affinity)(inputs), expected)


@pytest.mark.parametrize("affinity", AFFINITIES)
@pytest.mark.parametrize("neighbours", [1, 5, 50])
def test_equal_features_are_no_trouble(affinity: str, neighbours: int) -> None:
    logits = sample(6)[0].float()
    features = torch.tensor([0.1, 0.7, 0.3]).expand(6, 3)
    predictions = predict_jointly(logits, features, affinity, neighbours)  # type: ignore[arg-type]
    assert torch.isfinite(predictions).all()
    torch.testing.assert_close(predictions.exp().sum(1), torch.ones(6))
    if affinity == "rbf":  # all at distance zero: they agree on one class
        assert len(predictions.argmax(1).unique()) == 1


def test_features_of_zero_are_no_trouble() -> None:
    logits, _ = sample(6)
    for affinity in AFFINITIES:
        assert torch.isfinite(predict_jointly(logits, torch.zeros(6, 3).double(), affinity, 5)).all()  # type: ignore[arg-type]


def test_an_unsure_sample_takes_the_class_of_those_near_it() -> None:
    features = torch.tensor([[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4) + 0.01 * torch.rand(8, 2)
    logits = torch.tensor([[4.0, 0.0]] * 3 + [[0.0, 0.5]] + [[0.0, 4.0]] * 4)
    predictions = predict_jointly(logits, features, "knn", 3)
    assert logits[3].argmax() == 1
    assert predictions[3].argmax() == 0


def test_it_keeps_nothing_and_never_changes() -> None:
    model = adapt(tiny_resnet(), "lame")
    batches = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    first = [model.step(batch) for batch in batches]
    assert [(step.forwards, step.backwards, step.loss) for step in first] == [(1.0, 0.0, None)] * 3
    assert torch.equal(model(batches[0]), first[0].logits)
    assert not model.method.trained


def test_a_network_without_a_head_is_refused() -> None:
    with pytest.raises(ValueError, match="head="):
        adapt(nn.Sequential(nn.Flatten(), nn.Softmax(1)), "lame", example=torch.zeros(2, 12))


@pytest.mark.parametrize("options", [{"affinity": "cosine"}, {"neighbours": 0}])
def test_unknown_affinities_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be 'knn'|must be a whole number from 1"):
        adapt(tiny_resnet(), "lame", **options)
