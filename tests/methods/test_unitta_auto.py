"""The correlation of neighbouring labels is detected independently of the batch size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from holdfast.blocks.class_runs import ClassRuns
from holdfast.methods.unitta_auto import UnittaAuto
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet


def classes(count: int, stay: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    jumps = (torch.rand(count, generator=generator) > stay) * torch.randint(1, 10, (count,), generator=generator)
    return jumps.cumsum(0) % 10


def predicted(labels: Tensor, share_right: float, favourite: int, seed: int = 1) -> Tensor:
    """Return labels of which a share is correct, and half of the others are the same wrong class."""
    generator = torch.Generator().manual_seed(seed)
    guess = torch.randint(10, labels.shape, generator=generator)
    guess = torch.where(torch.rand(labels.shape, generator=generator) < 0.5, favourite, guess)
    return torch.where(torch.rand(labels.shape, generator=generator) < share_right, labels, guess)


@pytest.mark.parametrize("share_right", [0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_runs_are_told_from_classes_that_come_independently(share_right: float, seed: int) -> None:
    correlation = {}
    for stay in (0.1, 0.95):
        runs = ClassRuns()
        labels = classes(1280, stay, seed)
        for domain, part in enumerate(labels.split(256)):  # each biased to another class
            runs.observe(predicted(part, share_right, favourite=domain, seed=seed))
        correlation[stay] = runs.sure_correlation
    assert correlation[0.1] < 0.07
    assert correlation[0.95] > 0.13


def test_the_luck_of_a_first_batch_is_no_correlation() -> None:
    def share_correlated(stay: float) -> float:
        correlated = []
        for seed in range(200):
            runs = ClassRuns()
            runs.observe(predicted(classes(64, stay, seed), 0.6, favourite=seed % 10, seed=seed))
            correlated.append(runs.sure_correlation > 0.05)
        return sum(correlated) / len(correlated)

    assert share_correlated(0.1) < 0.02
    assert share_correlated(0.95) > 0.6  # most correlated streams are detected this early


def test_the_result_does_not_depend_on_the_batches() -> None:
    labels = classes(500, 0.8)
    whole, cut = ClassRuns(), ClassRuns()
    whole.observe(labels)
    for part in labels.split([1, 1, 98, 300, 100]):
        cut.observe(part)
    assert cut.correlation == pytest.approx(whole.correlation)
    assert torch.equal(cut.recent, labels[-64:])


def test_it_follows_a_stream_that_changes() -> None:
    runs = ClassRuns(memory_samples=256)
    assert runs.correlation == 0.0
    for stay, correlated in ((0.95, True), (0.1, False), (0.95, True)):
        runs.observe(classes(1024, stay))
        assert (runs.correlation > 0.1) is correlated


def test_it_predicts_as_bdn_without_runs_and_as_unitta_with_them() -> None:
    batches = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for threshold, name in ((2.0, "bdn"), (-2.0, "unitta")):
        sensing, plain = adapt(tiny_resnet(), "unitta_auto", min_correlation=threshold), adapt(tiny_resnet(), name)
        for batch in batches:
            assert torch.equal(sensing(batch), plain(batch))
        assert isinstance(sensing.method, UnittaAuto)
        assert sensing.method.correlated is (name == "unitta")


def test_too_short_a_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 64"):
        adapt(tiny_resnet(), "unitta_auto", memory_samples=10)
