"""The risk monitor as an estimator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import holdfast


class Votes(nn.Module):
    """Predicts the largest of ten inputs, and is the less certain the smaller it is."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(10, 10)
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(10))
            self.head.bias.zero_()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(inputs)
        return logits


def samples(number: int, wrong: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Votes and labels: wrong votes are weak, right ones strong."""
    rng = torch.Generator().manual_seed(seed)
    votes, mistaken = torch.randint(10, (number,), generator=rng), torch.rand(number, generator=rng) < wrong
    inputs = nn.functional.one_hot(votes, 10) * torch.where(mistaken, 1.0, 8.0)[:, None]
    return inputs, torch.where(mistaken, (votes + 1) % 10, votes)


def adapted(**options: object) -> holdfast.AdaptedModel:
    return holdfast.adapt(
        Votes(), "source", estimator="risk", holdout=[samples(1000, 0.1)], example=samples(2, 0.0)[0], **options
    )


def test_a_rising_error_raises_an_alarm_and_a_steady_one_none() -> None:
    model = adapted()
    steady = [model.step(samples(64, 0.1, seed)[0]) for seed in range(10)]
    assert all(step.estimates["risk"].alarm is None for step in steady)
    assert steady[-1].estimates["risk"].value <= 1
    rising = [model.step(samples(64, 0.8, seed)[0]).estimates["risk"] for seed in range(20)]
    alarms = [estimate for estimate in rising if estimate.alarm]
    assert alarms
    assert "is allowed" in str(alarms[0].alarm)
    assert alarms[0].value < 0.85


def test_an_alarm_starts_anew() -> None:
    model = adapted()
    reasons = [model.step(samples(64, 0.45)[0]).estimates["risk"].alarm for _ in range(20)]
    first = next(index for index, reason in enumerate(reasons) if reason)
    assert first > 0
    assert reasons[first + 1 : 2 * (first + 1)] == reasons[: first + 1]  # the same evidence is needed again


def test_a_saved_monitor_goes_on(tmp_path: Path) -> None:
    model, other = adapted(), adapted()
    for seed in range(3):
        model.step(samples(64, 0.4, seed)[0])
    model.save(tmp_path / "state.safetensors")
    other.load(tmp_path / "state.safetensors")
    batch = samples(64, 0.4, 9)[0]
    assert model.step(batch).estimates["risk"] == other.step(batch).estimates["risk"]
    assert adapted().step(batch).estimates["risk"] != model.step(batch).estimates["risk"]


def test_labels_are_needed_and_said_to_be() -> None:
    with pytest.raises(ValueError, match="'risk' needs held-out source data"):
        holdfast.adapt(Votes(), "source", estimator="risk", example=samples(2, 0.0)[0])
