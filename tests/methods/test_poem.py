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


def test_the_first_sample_is_bet_on_but_not_learnt_from() -> None:
    method = poem()
    method.source_entropies = torch.linspace(0.1, 1.0, 10)  # then a share is the entropy itself
    rate = 1 / (8 * math.sqrt(3))
    method.protect(torch.tensor([0.9]))
    assert (method.bet, method.squares, method.log_wealth) == (0.0, 0.0, 0.0)
    method.protect(torch.tensor([0.9]))  # its gain is 0.4, which is all of the gains so far
    assert (method.bet, method.squares) == (pytest.approx(rate), pytest.approx(0.16))
    method.protect(torch.tensor([0.3]))
    assert method.log_wealth == pytest.approx(math.log(1 - 0.2 * rate))
    gain = -0.2 / (1 - 0.2 * rate)
    assert method.bet == pytest.approx(rate + rate * gain / math.sqrt(0.16 + gain**2))
