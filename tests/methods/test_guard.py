"""Parts of the guard that its promise depends on."""

from __future__ import annotations

import itertools

import pytest
import torch

import holdfast
from holdfast.anchor import Opinion
from holdfast.models.tiny import tiny_resnet


@pytest.mark.parametrize("first", ["source", "adapted"])
def test_rounding_of_probabilities_does_not_stop_the_alarm(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    above, zero = torch.nextafter(torch.ones(8), torch.full((8,), 2.0)), torch.zeros(8)
    turns = itertools.cycle([above, zero] if first == "source" else [zero, above])
    model = holdfast.guard(tiny_resnet(), "tent", source=[torch.rand(16, 3, 32, 32)])
    monkeypatch.setattr(Opinion, "belief", lambda *_: next(turns))
    assert model.step(torch.rand(8, 3, 32, 32)).skipped is None  # the alarm refuses losses outside [-1, 1]
