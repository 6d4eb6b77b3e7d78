"""AETTA's reset rule against decisions recorded from the official code, and the estimator that it needs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.estimators.aetta import Aetta
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.records import Estimate, Refused, Step
from holdfast.recovery.estimate_drop import EstimateDrop

GOLDEN = Path(__file__).parents[1] / "estimators" / "aetta_golden.npz"
BATCHES = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Counted:
    """Counts its resets."""

    resets = 0

    def reset(self) -> None:
        self.resets += 1


def step(estimate: float, *, skipped: str | None = None, unknown: str | None = None) -> Step:
    return Step(
        torch.zeros(2, 10),
        0.5,
        {"aetta": Estimate(estimate, unknown=unknown)},
        () if skipped is None else (Refused(skipped),),
    )


def test_decisions_and_memory_are_the_recorded_ones() -> None:
    with np.load(GOLDEN, allow_pickle=False) as golden:
        assert len(golden["reset_names"]) == 14
        for name in golden["reset_names"]:
            recovery, method, resets, lengths = EstimateDrop(), Counted(), [], []
            for index, percent in enumerate(golden[f"reset_seq_{name}"]):
                if recovery.recover(method, step(percent / 100)):  # type: ignore[arg-type]
                    resets.append(index)
                lengths.append(len(recovery.estimates))
            assert resets == golden[f"reset_steps_{name}"].tolist(), name
            assert lengths == golden[f"reset_memlen_{name}"].tolist(), name
            assert method.resets == len(resets)


def test_the_reason_says_which_rule_it_was() -> None:
    recovery = EstimateDrop()
    assert recovery.recover(Counted(), step(0.1)) == "estimated accuracy 0.1 below 0.2"  # type: ignore[arg-type]
    reasons = [recovery.recover(Counted(), step(value)) for value in [0.8] * 5 + [0.7] * 5]  # type: ignore[arg-type]
    assert reasons[-1] == "estimated accuracy fell from 0.8 to 0.7 over 5 batches"


def test_faulty_inputs_and_unknown_estimates_are_no_evidence() -> None:
    recovery = EstimateDrop()
    assert recovery.recover(Counted(), step(0.0, skipped="non-finite values")) is None  # type: ignore[arg-type]
    assert recovery.recover(Counted(), step(math.nan)) is None  # type: ignore[arg-type]


def test_an_unknown_estimate_does_not_blind_the_windows() -> None:
    recovery = EstimateDrop()
    unknown = [step(math.nan, unknown="signals disagree")] * 3
    steps = [step(0.8)] * 5 + unknown + [step(0.7)] * 5
    reasons = [recovery.recover(Counted(), one) for one in steps]  # type: ignore[arg-type]
    assert reasons[-1] == "estimated accuracy fell from 0.8 to 0.7 over 5 batches"
    assert reasons[:-1] == [None] * 12


def test_the_estimator_it_reads_comes_with_it() -> None:
    model = adapt(tiny_resnet(), "tent", recovery="estimate_drop", threshold=1.1, lr=0.1)
    first = model.step(BATCHES[0])
    assert set(first.estimates) == {"aetta"}
    assert first.recovered
    assert torch.equal(model(BATCHES[0]), first.logits)
    chosen = adapt(tiny_resnet(), "tent", recovery="estimate_drop", estimator=Aetta(points="features"))
    assert chosen.recipe["estimators"]["aetta"]["points"] == "features"


def test_another_estimator_can_be_read_and_a_missing_one_is_named() -> None:
    model = adapt(tiny_resnet(), "tent", recovery="estimate_drop", estimate="softmax_score")
    assert set(model.step(BATCHES[0]).estimates) == {"softmax_score"}
    with pytest.raises(ValueError, match="pass estimator='gde'"):
        EstimateDrop(estimate="gde").recover(Counted(), step(0.5))  # type: ignore[arg-type]
