"""POEM: wealth grows under a shift of the entropies and not without, and a sample costs the same at any length."""

from __future__ import annotations

import math

import pytest
import torch

from holdfast.methods.poem import Poem
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

INPUTS = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
SOURCE = torch.rand(500, generator=torch.Generator().manual_seed(0)).sort().values


def poem() -> Poem:
    method = adapt(tiny_resnet("group"), "poem", source=[INPUTS]).method
    assert isinstance(method, Poem)
    method.source_entropies = SOURCE
    return method


@pytest.mark.parametrize(("power", "shifted"), [(1.0, False), (0.3, True), (4.0, True)])
def test_wealth_is_evidence_of_a_shift(power: float, shifted: bool) -> None:
    method = poem()
    stream = torch.rand(2000, generator=torch.Generator().manual_seed(1)) ** power
    protected = method.protect(stream)
    assert (method.log_wealth > math.log(100)) == shifted
    # The targets are distributed as on the source, so that training towards them undoes the shift.
    assert abs(float(protected[1000:].mean()) - 0.5) < abs(float(stream[1000:].mean()) - 0.5) + 0.02


def test_the_state_does_not_grow_with_the_stream() -> None:
    method = poem()
    sizes = []
    for _ in range(2):
        method.protect(torch.rand(500))
        state = method.get_extra_state()
        sizes.append([value.shape for value in state.values() if isinstance(value, torch.Tensor)])
    assert sizes[0] == sizes[1]


def test_it_does_not_train_before_a_hundred_samples() -> None:
    model = adapt(tiny_resnet("group"), "poem", source=[INPUTS], weighted=False)
    losses = [model.step(INPUTS).loss for _ in range(13)]
    assert losses[:12] == [None] * 12
    assert losses[12] is not None
