"""Class proportions: what both judges see, and never more; nothing reinforces itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast.anchor import Anchor, agreed, proportions, proportions_by_evidence

WINDOW = 64


def window(labels: Tensor, classes: int, *, sure: float, preferred: float = 0.0, seed: int = 0) -> Tensor:
    """Return probabilities like those of a classifier; it prefers class 0 whatever it is shown."""
    draws = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(labels), classes, generator=draws)
    logits[torch.arange(len(labels)), labels] += sure
    logits[:, 0] += preferred
    return logits.softmax(1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    classes=st.sampled_from([2, 5, 10, 24]),
    sure=st.floats(3, 8),
    preferred=st.floats(0, 20),
)
def test_no_class_is_frequent_that_a_balanced_source_does_not_see(
    seed: int, classes: int, sure: float, preferred: float
) -> None:
    labels = torch.arange(WINDOW) % classes
    anchor = window(labels, classes, sure=sure, preferred=preferred, seed=seed)
    source = window(labels, classes, sure=sure, seed=seed + 1)
    shares = agreed(proportions_by_evidence(anchor), proportions_by_evidence(source))
    assert float(shares.max()) <= 2 / classes + 0.02
    torch.testing.assert_close(shares.sum(1), torch.ones(WINDOW))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=st.integers(0, 10_000), spread=st.floats(0.01, 30))
def test_whatever_the_anchor_says_a_source_that_knows_nothing_allows_nothing(rows: int, spread: float) -> None:
    anchor = (spread * torch.randn(WINDOW, 10, generator=torch.Generator().manual_seed(rows))).softmax(1)
    shares = agreed(proportions_by_evidence(anchor), proportions_by_evidence(torch.full((WINDOW, 10), 0.1)))
    torch.testing.assert_close(shares, torch.full((WINDOW, 10), 0.1))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_a_class_is_at_most_as_frequent_as_either_judge_says(seed: int, share: float) -> None:
    draws = torch.Generator().manual_seed(seed)
    one, other = (torch.rand(8, 6, generator=draws).pow(8 * share + 0.1) + 1e-6 for _ in range(2))
    one, other = one / one.sum(1, keepdim=True), other / other.sum(1, keepdim=True)
    shares = agreed(one, other)
    assert (shares >= 0).all()
    assert (shares <= torch.minimum(one, other).clamp_min(1 / 6) + 1e-6).all()
    torch.testing.assert_close(shares, agreed(other, one))
    torch.testing.assert_close(shares.sum(1), torch.ones(8))


@pytest.mark.parametrize("classes", [2, 10, 24])
@pytest.mark.parametrize("start", ["empty", "one class"])
def test_a_preferred_class_does_not_take_over_in_a_hundred_rounds(classes: int, start: str) -> None:
    """The worst case: what the anchor predicts with its proportions is what it predicts without in the next round."""
    anchor, labels = Anchor(), torch.arange(WINDOW) % classes
    plain, source = (window(labels, classes, sure=5, preferred=by) for by in (2.0, 0.0))
    if start == "one class":
        anchor.recent = window(torch.zeros(WINDOW, dtype=torch.long), classes, sure=8)
        anchor.recent_source = source
    right = float((plain.argmax(1) == labels).double().mean())
    inputs = torch.rand(16, 4)
    for turn in range(100):
        rows = torch.arange(16) + 16 * (turn % 4)
        opinion = anchor.view(plain[rows].log(), source[rows].log(), inputs)
        plain[rows] = opinion.probabilities
    assert float(opinion.proportions.max()) <= 2 / classes + 0.02
    assert float((plain.argmax(1) == labels).double().mean()) > right - 0.05


def test_one_class_that_only_the_anchor_sees_is_forgotten_when_the_source_sees_all() -> None:
    anchor = Anchor()
    anchor.recent = anchor.recent_source = window(torch.zeros(WINDOW, dtype=torch.long), 10, sure=8)
    labels = torch.arange(WINDOW) % 10
    first, second = (
        anchor.view(
            torch.eye(10)[torch.zeros_like(labels)] * 9, window(labels, 10, sure=6).log(), torch.rand(WINDOW, 4)
        )
        for _ in range(2)
    )
    for opinion in (first, second):
        assert float(opinion.proportions[:, 0].max()) <= 0.12


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_a_balanced_window_is_left_alone(classes: int) -> None:
    both = window(torch.arange(WINDOW) % classes, classes, sure=6)
    shares = agreed(proportions_by_evidence(both), proportions_by_evidence(both))
    torch.testing.assert_close(shares, torch.full_like(shares, 1 / classes), atol=0.01, rtol=0)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_one_class_that_both_see_is_used(classes: int) -> None:
    one = torch.full((WINDOW,), classes - 1)
    anchor, source = (window(one, classes, sure=6, seed=seed) for seed in (0, 1))
    shares = agreed(proportions_by_evidence(anchor), proportions_by_evidence(source))
    most = 1 - 1 / classes + 1 / classes**2  # of what both see beyond equal shares, and an equal share of the rest
    assert float(shares[:, -1].min()) > 0.85 * most


def test_few_samples_prove_nothing_and_the_same_samples_in_a_full_window_do() -> None:
    one = torch.zeros(WINDOW, dtype=torch.long)
    few, many = (proportions_by_evidence(window(one[:samples], 10, sure=5)) for samples in (3, WINDOW))
    assert float(few[:, 0].max()) < 0.2
    assert float(many[:, 0].min()) > 0.9
    assert float(proportions_by_evidence(window(one[:6], 10, sure=5), bias=0)[:, 0].min()) > 0.5


def test_no_sample_votes_for_itself() -> None:
    labels = torch.zeros(WINDOW, dtype=torch.long)
    labels[0] = 3
    shares = proportions_by_evidence(window(labels, 10, sure=12))
    assert float(shares[0, 3]) < float(shares[1, 3])


@pytest.mark.parametrize("sure", [3.0, 6.0, 12.0])
@pytest.mark.parametrize("shown", [1, 5, 3000])
def test_rare_classes_that_share_a_proportion_change_no_probability_by_a_thousandth(
    sure: float, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = window(torch.arange(WINDOW) % shown, 3000, sure=sure)
    counted = (torch.arange(WINDOW) >= 4).float()
    together = proportions_by_evidence(rows, counted=counted)
    monkeypatch.setattr(proportions, "ALL_ALONE", 3000)
    alone = proportions_by_evidence(rows, counted=counted)
    torch.testing.assert_close(together.sum(1), torch.ones(WINDOW))
    weighed = [(rows * each) / (rows * each).sum(1, keepdim=True) for each in (together, alone)]
    torch.testing.assert_close(*weighed, atol=1e-3, rtol=0)


@pytest.mark.parametrize("classes", [100, 101])
def test_two_judges_at_once_are_two_judges_one_after_the_other(classes: int) -> None:
    one, other = (window(torch.arange(WINDOW) % 3, classes, sure=5, seed=seed) for seed in (0, 1))
    both = agreed(proportions_by_evidence(one), proportions_by_evidence(other))
    torch.testing.assert_close(proportions.agreed_proportions(one, other), both, atol=1e-6, rtol=1e-5)
