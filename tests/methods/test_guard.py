"""Parts of the guard that its promise depends on."""

from __future__ import annotations

import itertools

import pytest
import torch

import holdfast
from holdfast.anchor import Opinion
from holdfast.methods.guard import USUAL_TEMPERATURE, Guard
from holdfast.models.tiny import tiny_resnet


@pytest.mark.parametrize("first", ["source", "adapted"])
def test_rounding_of_probabilities_does_not_stop_the_alarm(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    above, zero = torch.nextafter(torch.ones(8), torch.full((8,), 2.0)), torch.zeros(8)
    turns = itertools.cycle([above, zero] if first == "source" else [zero, above])
    model = holdfast.guard(tiny_resnet(), "tent", source=[torch.rand(16, 3, 32, 32)])
    monkeypatch.setattr(Opinion, "belief", lambda *_: next(turns))
    assert model.step(torch.rand(8, 3, 32, 32)).skipped is None  # the alarm refuses losses outside [-1, 1]


def test_the_judge_sees_anchor_and_source_at_its_own_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    method = holdfast.guard(tiny_resnet(), "tent", source=[inputs]).method
    assert isinstance(method, Guard)
    assert (method.anchor.now_temperature, method.judge.now_temperature) == (1.0, USUAL_TEMPERATURE)
    judged: list[tuple[torch.Tensor, torch.Tensor]] = []

    def or_source(opinion: Opinion, source: torch.Tensor) -> Opinion:
        judged.append((opinion.plain, source))
        return opinion

    monkeypatch.setattr(Opinion, "or_source", or_source)
    method.pause()
    with torch.no_grad():
        anchored, shipped = method.following(inputs), method.source(inputs)
        _, verdict = method.serve(inputs)
    assert verdict is not None
    ((plain, source),) = judged
    assert torch.allclose(plain, (anchored / USUAL_TEMPERATURE).softmax(1), atol=1e-6)
    assert torch.allclose(source, (shipped / USUAL_TEMPERATURE).softmax(1), atol=1e-6)
    assert torch.allclose(verdict.logits.log_softmax(1), anchored.log_softmax(1), atol=1e-5)
