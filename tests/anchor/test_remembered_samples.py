"""What the anchor remembers of the last samples, and what it does not."""

from __future__ import annotations

import torch

from holdfast.anchor import Anchor, AnchorTemperature

LOGITS = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
INPUTS = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))


def test_a_view_that_does_not_learn_remembers_nothing() -> None:
    anchor = Anchor(window=4)
    anchor.view(LOGITS, LOGITS, INPUTS, learn=False)
    assert (anchor.recent, anchor.recent_source) == (None, None)
    anchor.view(LOGITS, LOGITS, INPUTS)
    assert anchor.recent is not None
    assert anchor.recent.shape == (2, 3)


def test_a_blank_input_is_remembered_as_any_class() -> None:
    anchor = Anchor(window=4)
    anchor.view(LOGITS, LOGITS, torch.stack([INPUTS[0], torch.full((3,), 0.5)]))
    assert anchor.recent is not None
    torch.testing.assert_close(anchor.recent[1], torch.full((3,), 1 / 3))
    assert anchor.recent[0, 0] > 0.9


def test_the_stream_does_not_change_the_error_of_a_temperature_that_was_fitted() -> None:
    anchor, temperature = Anchor(), AnchorTemperature()
    temperature.fit(anchor, [LOGITS.repeat(20, 1)], [torch.tensor([0, 1]).repeat(20)])
    fitted = temperature.error, anchor.now_temperature
    temperature.compare(anchor, LOGITS, LOGITS.flip(0))
    assert (temperature.error, anchor.now_temperature) == fitted
    assert temperature.compared is None
