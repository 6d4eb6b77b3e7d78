"""Regret: resets when adapting is worse than not adapting, on synthetic gains and on real networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.data import DATASETS
from holdfast.estimators.anchored import Anchored
from holdfast.model.adapt import adapt
from holdfast.models import digits_resnet
from holdfast.records import Estimate, Refused, Step
from holdfast.recovery.last_good import LastGood
from holdfast.recovery.regret import Regret


class Counted:
    """Counts its resets."""

    resets = 0

    def reset(self) -> None:
        self.resets += 1


def reasons_for(
    recovery: Regret, gains: list[float | None], size: int = 64, skipped: str | None = None
) -> list[str | None]:
    """Return its decisions for batches with these estimated gains."""
    method = Counted()
    reasons = [
        recovery.recover(
            method,  # type: ignore[arg-type]
            Step(
                torch.zeros(size, 10),
                0.5,
                {"anchored": Estimate(0.5, gain=gain)},
                () if skipped is None else (Refused(skipped),),
            ),
        )
        for gain in gains
    ]
    assert method.resets == sum(reason is not None for reason in reasons)
    return reasons


def test_a_lasting_loss_counts_once_the_window_is_full_and_a_sudden_one_at_once() -> None:
    assert reasons_for(Regret(), [-0.06] * 5) == [None] * 4 + ["estimated to be 6 points worse than the source"]
    assert reasons_for(Regret(), [0.1] * 9 + [-0.7]) == [None] * 9 + ["estimated to be 6 points worse than the source"]
    assert reasons_for(Regret(), [-0.3])[0] is not None


def test_gains_and_losses_within_the_margin_are_no_reason() -> None:
    assert reasons_for(Regret(), [0.3, -0.04, None, -0.049, 0.0] * 10) == [None] * 50
    assert reasons_for(Regret(), [-0.9] * 3, skipped="non-finite values") == [None] * 3


def test_what_was_long_ago_is_forgotten_and_a_reset_starts_afresh() -> None:
    recovery = Regret()
    assert reasons_for(recovery, [0.9] * 5 + [-0.06] * 4)[-1] is None
    assert reasons_for(recovery, [-0.06])[-1] is not None
    assert recovery.gains == []


def test_single_samples_are_weighed_as_such() -> None:
    assert reasons_for(Regret(), [-0.9] * 10, size=1) == [None] * 10
    assert reasons_for(Regret(), [-0.9] * 20, size=1)[17] is not None  # 16.2 of 320


def test_it_needs_somebody_who_compares() -> None:
    with pytest.raises(ValueError, match="estimator='anchored'"):
        Regret().recover(Counted(), Step(torch.zeros(2, 10), 0.5, {}))  # type: ignore[arg-type]
    plain = Step(torch.zeros(2, 10), 0.5, {"anchored": Estimate(math.nan, unknown="non-finite logits")})
    assert Regret().recover(Counted(), plain) is None  # type: ignore[arg-type]
    for recovery in (Regret(estimate="aetta"), LastGood(trigger="regret", trigger_options={"estimate": "aetta"})):
        with pytest.raises(ValueError, match="the estimator 'aetta' gives none"):
            adapt(digits_resnet(), "tent", recovery=recovery)
    with pytest.raises(ValueError, match="the estimator 'anchored' gives none"):
        adapt(digits_resnet(), "tent", recovery="regret", estimator=Anchored(compare_every=0))
    with pytest.raises(ValueError, match="margin of recovery 'regret' must be a number of at least 0, got -1"):
        adapt(digits_resnet(), "tent", recovery=Regret(margin=-1))
    with pytest.raises(ValueError, match="samples of recovery 'regret' must be a whole number from 1 to"):
        adapt(digits_resnet(), "tent", recovery="regret", samples=0)
    assert list(adapt(digits_resnet(), "tent", recovery="regret").estimators) == ["anchored"]


def noisy_digits(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    data = DATASETS["digits"]("test")
    chosen = np.random.default_rng(seed).permutation(len(data.labels))[:samples]
    inputs = torch.from_numpy(data.inputs(chosen)).permute(0, 3, 1, 2).float() / 255
    noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(seed))
    return (inputs + 0.15 * noise).clamp(0, 1), torch.from_numpy(data.labels[chosen])


@pytest.mark.slow
@pytest.mark.parametrize(("lr", "resets"), [(1e-3, False), (1.0, True)])
def test_a_healthy_model_is_left_alone_and_a_ruined_one_goes_back(lr: float, resets: bool) -> None:
    model = adapt(digits_resnet(), "tent", lr=lr, momentum=0.0, estimator=Anchored(compare_every=1), recovery="regret")
    inputs, labels = noisy_digits(320, seed=3)
    steps = [model.step(batch) for batch in inputs.split(32)]
    assert any(step.recovered for step in steps) is resets
    if resets:
        first = next(index for index, step in enumerate(steps) if step.recovered)
        after = (steps[first + 1].logits.argmax(1) == labels.split(32)[first + 1]).double().mean()
        assert after > (steps[first].logits.argmax(1) == labels.split(32)[first]).double().mean() + 0.3


def test_the_gain_is_that_over_the_source() -> None:
    ruined = adapt(digits_resnet(), "tent", lr=1.0, momentum=0.0, estimator=Anchored(temperature=0.78, compare_every=2))
    source = digits_resnet()
    inputs, labels = noisy_digits(128, seed=4)
    for index, (batch, right) in enumerate(zip(inputs.split(32), labels.split(32), strict=True)):
        step = ruined.step(batch)
        (estimate,) = step.estimates.values()
        assert (estimate.gain is not None) is (index > 0)  # at once when the predictions look ruined
        if estimate.gain is not None:
            true = [(logits.argmax(1) == right).double().mean() for logits in (step.logits, source(batch))]
            assert estimate.gain == pytest.approx(float(true[0] - true[1]), abs=0.25)
            assert estimate.gain < -0.3
