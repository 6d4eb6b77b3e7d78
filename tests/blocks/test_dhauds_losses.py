"""The losses of DHAuDS equal values and gradients of the official code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.blocks.losses import (
    entropy,
    generalised_entropy,
    negative_nuclear_norm,
    prediction_distance,
    smoothed_entropy,
)

# `dhauds_losses.npz`: gradients of the total for the two smaller cases, float64, from the official code.
GRADIENTS = dict(np.load(Path(__file__).with_name("dhauds_losses.npz")))
CASES = {  # seed, batch, classes, scale, then values of view 1, consistency, and totals as coded and for both views
    "A": (0, 8, 10, 1.0, -0.3476808855549687, 0.32426103328601213, 5.345607935635831, 5.350642245077915),
    "B": (1, 64, 35, 1.0, -0.3505882366160518, 0.283437012236914, 7.609361902773805, 7.610838686682388),
}


def views(case: str) -> tuple[torch.Tensor, torch.Tensor]:
    seed, batch, classes, scale, *_ = CASES[case]
    drawn = np.random.default_rng(seed).standard_normal((2, batch, classes)) * scale
    first, second = (torch.from_numpy(view.astype(np.float32)).double() for view in drawn)
    return first, second


def total(first: torch.Tensor, second: torch.Tensor, *, as_coded: bool) -> torch.Tensor:
    """Return the objective with the weights of AMAuT on Speech Commands, END2-L2: all 1, exponent 2."""
    losses = [negative_nuclear_norm(view) + smoothed_entropy(view, eps=1e-8).mean() for view in (first, second)]
    # The official loop counts the generalised entropy of the first view twice.
    twice = (first, first if as_coded else second)
    losses += [generalised_entropy(view, exponent=2.0).mean() for view in twice]
    return sum(losses) + prediction_distance(first, second).mean()


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_official_code(case: str) -> None:
    first, second = views(case)
    _, _, _, _, nuclear, consistency, as_coded, symmetric = CASES[case]
    assert float(negative_nuclear_norm(first)) == pytest.approx(nuclear, abs=1e-9)
    assert float(prediction_distance(first, second).mean()) == pytest.approx(consistency, abs=1e-9)
    assert float(total(first, second, as_coded=True)) == pytest.approx(as_coded, abs=1e-9)
    assert float(total(first, second, as_coded=False)) == pytest.approx(symmetric, abs=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("variant", ["as_code", "symmetric"])
def test_gradients_are_those_of_the_official_code(case: str, variant: str) -> None:
    both = [view.requires_grad_() for view in views(case)]
    total(*both, as_coded=variant == "as_code").backward()
    for number, view in enumerate(both, start=1):
        assert view.grad is not None
        key = f"{case}_grad_{variant}_o{number}"
        assert view.grad.numpy() == pytest.approx(GRADIENTS[key], abs=1e-9), key


@pytest.mark.parametrize(
    ("exponent", "value"),
    [(0.9, 2.2557484487818007), (1.1, 1.8010495136736286), (1.6, 1.1273787846395877), (2.5, 0.6174020676637338)],
)
def test_generalised_entropy_is_that_of_the_official_code(exponent: float, value: float) -> None:
    assert float(generalised_entropy(views("A")[0], exponent=exponent).mean()) == pytest.approx(value, abs=1e-9)


def test_generalised_entropy_passes_through_the_entropy() -> None:
    logits = views("A")[0]
    assert torch.equal(generalised_entropy(logits, exponent=1.0), entropy(logits))
    assert torch.allclose(generalised_entropy(logits, exponent=1 + 1e-6), entropy(logits), atol=1e-5)


def test_the_smoothing_of_entropies_is_that_of_the_official_code() -> None:
    for eps, value in ((1e-6, 2.009459761731905), (1e-8, 2.0094696616212087)):
        assert float(smoothed_entropy(views("A")[0], eps=eps).mean()) == pytest.approx(value, abs=1e-10)


def test_the_exact_nuclear_norm_bounds_the_quick_one() -> None:
    logits = views("A")[0]
    exact = float(negative_nuclear_norm(logits, exact=True))
    assert exact == pytest.approx(-2.390799181549333 / 10)
    assert float(negative_nuclear_norm(logits)) <= exact


def test_gradients_are_finite_for_equal_and_for_certain_predictions() -> None:
    logits = torch.tensor([[200.0, 0.0, -200.0], [200.0, 0.0, -200.0]], requires_grad=True)
    loss = negative_nuclear_norm(logits) + generalised_entropy(logits, exponent=0.9).mean()
    (loss + prediction_distance(logits, logits.detach().clone()).mean()).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
