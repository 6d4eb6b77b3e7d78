"""TDA: caches of confident and of uncertain features, against a plain reading of its formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import holdfast
from holdfast.models.tiny import tiny_resnet


class Directions(nn.Module):
    """A network whose features are its inputs, and whose logits are their cosines with the axes, times ten."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.head = nn.Linear(classes, classes, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(10 * torch.eye(classes))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(F.normalize(inputs, dim=1))
        return logits


def adapted(**options: object) -> holdfast.AdaptedModel:
    return holdfast.adapt(Directions(), "tda", example=torch.rand(2, 3), **options)


def predicted(samples: Tensor, *, positives: int, strength: float, sharpness: float) -> Tensor:
    """Return the logits of samples one after the other, with Python lists instead of tensors; no negative cache."""
    caches: list[list[tuple[float, Tensor]]] = [[] for _ in range(samples.shape[1])]
    results = []
    for sample in F.normalize(samples, dim=1):
        logits = 10 * sample
        uncertainty = float(-(logits.softmax(0) * logits.log_softmax(0)).sum())
        cache = caches[int(logits.argmax())]
        cache.append((uncertainty, sample))
        cache.sort(key=lambda item: item[0])
        del cache[positives:]
        added = [
            sum(strength * math.exp(-sharpness * (1 - float(sample @ kept))) for _, kept in cache) for cache in caches
        ]
        results.append(logits + torch.tensor(added))
    return torch.stack(results)


@pytest.mark.parametrize("batch_size", [1, 7, 40])
def test_samples_come_one_after_the_other_whatever_the_batch(batch_size: int) -> None:
    samples = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) ** 4
    model = adapted(positives=2, strength=1.5, sharpness=4.0, negatives=0)
    logits = torch.cat([model(batch) for batch in samples.split(batch_size)])
    expected = predicted(samples, positives=2, strength=1.5, sharpness=4.0)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_an_uncertain_sample_is_held_against_all_classes_that_it_may_be() -> None:
    # Two of three classes are as likely: the relative entropy is log 2 / log2 3 = 0.437.
    doubtful = torch.tensor([[1.0, 1.0, 0.0]])
    cosine = float(F.normalize(doubtful, dim=1)[0, 0])
    model = adapted(strength=0.0, negative_strength=0.5, negative_sharpness=2.0)
    logits = model(doubtful)
    plain = 10 * F.normalize(doubtful, dim=1)
    torch.testing.assert_close(logits, plain - torch.tensor([[0.5, 0.5, 0.0]]))  # of itself: a cosine of 1
    later = model(torch.tensor([[1.0, 0.0, 0.0]]))  # certain, so that it is not added
    less = 0.5 * math.exp(-2 * (1 - cosine))
    torch.testing.assert_close(later, torch.tensor([[10 - less, -less, 0.0]]))
    none = adapted(strength=0.0, negative_strength=0.5, uncertain=(0.44, 0.5))
    torch.testing.assert_close(none(doubtful), plain)


def test_an_exported_network_predicts_with_the_caches_as_they_are() -> None:
    generator = torch.Generator().manual_seed(1)
    model = holdfast.adapt(tiny_resnet("group"), "tda")
    source = tiny_resnet("group").eval()
    for _ in range(3):
        model(torch.rand(8, 3, 32, 32, generator=generator))
    inputs = torch.rand(5, 3, 32, 32, generator=generator)
    exported = model.export()
    first = exported(inputs)
    assert torch.equal(first, exported(inputs))
    assert not torch.allclose(first, source(inputs))
    model.reset()
    assert len(model.method.positive_labels) == 0


def test_each_class_keeps_at_most_its_number_of_features() -> None:
    model = adapted(positives=2, negatives=1)
    for _ in range(5):
        model(torch.rand(30, 3))
    assert torch.tensor(model.method.positive_labels).bincount(minlength=3).tolist() == [2, 2, 2]
    assert torch.tensor(model.method.negative_labels).bincount(minlength=3).max() <= 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positives": 0}, "positives of method 'tda' must be a whole number"),
        ({"uncertain": (0.5, 0.2)}, r"uncertain must be two rising entropies from 0 on, got \(0.5, 0.2\)"),
    ],
)
def test_options_that_make_no_cache_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adapted(**options)
