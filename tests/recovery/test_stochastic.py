"""Stochastic restoration: how much is restored, when nothing is, and who takes its option."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from holdfast.methods import METHODS
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import recipe_names, recipe_of, resolve
from holdfast.records import Refused, Step
from holdfast.recovery import RECOVERIES
from holdfast.recovery.stochastic import Stochastic
from holdfast.registry import UnknownNameError, options_of

INPUTS = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
LEARNT = Step(torch.zeros(1, 1), loss=0.5)


class Weights:
    """All that a recovery may touch: one hundred thousand weights that have left their source, zero, for one."""

    def __init__(self) -> None:
        self.weights = torch.ones(100_000)

    def reset(self) -> None:
        raise AssertionError("a share of the weights was asked for, not all")

    def restore(self, mask: object) -> None:
        assert callable(mask)
        self.weights = torch.where(mask(self.weights, None), 0.0, self.weights)


def restored(recovery: Stochastic, step: Step = LEARNT) -> Tensor:
    method = Weights()
    assert recovery.recover(method, step) is None  # nothing that a report would count as a reset
    return method.weights == 0


def test_each_weight_goes_back_with_the_given_probability() -> None:
    assert float(restored(Stochastic(restore_share=0.2)).float().mean()) == pytest.approx(0.2, abs=0.005)
    assert restored(Stochastic(restore_share=1.0)).all()
    assert not restored(Stochastic(restore_share=0.0)).any()


def test_nothing_goes_back_where_nothing_was_learnt() -> None:
    recovery = Stochastic(restore_share=1.0)
    assert not restored(recovery, Step(torch.zeros(1, 1), events=(Refused("non-finite logits"),))).any()
    assert recovery.updates == 0


def test_draws_follow_the_seed_and_the_number_of_updates() -> None:
    first, again, other = (Stochastic(restore_share=0.5, seed=seed) for seed in (0, 0, 1))
    one, two = restored(first), restored(first)
    assert torch.equal(one, restored(again))
    assert torch.equal(two, restored(again))
    assert not torch.equal(one, two)
    assert not torch.equal(one, restored(other))


def test_it_restores_the_trained_weights_of_any_method_and_only_after_good_batches() -> None:
    model = adapt(tiny_resnet(), "tent", recovery="stochastic", restore_share=0.5, lr=0.1, optimizer="sgd")
    model(INPUTS)
    moved, source = (torch.cat([part.flatten() for part in parts]) for parts in _both(model.method))
    share = float((moved == source).float().mean())
    assert 0.3 < share < 0.7
    model(INPUTS * float("nan"))
    assert torch.equal(moved, torch.cat([part.flatten() for part in _both(model.method)[0]]))


def _both(method: object) -> tuple[list[Tensor], list[Tensor]]:
    return [weight.detach().clone() for weight in method.trained], method.source_weights()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, 0.01),
        ({"preset": "imagenet-c"}, 0.001),
        ({"preset": "imagenet-c", "restore_share": 0.1}, 0.1),
    ],
)
def test_the_recipe_restores_the_share_of_its_preset_unless_told(options: dict[str, object], share: float) -> None:
    model = adapt(tiny_resnet(), "cotta", **options)  # type: ignore[arg-type]
    assert model.recipe["recovery"] == "stochastic"
    assert model.recipe["recovery_options"]["restore_share"] == share


def test_another_recovery_takes_nothing_from_the_preset() -> None:
    assert adapt(tiny_resnet(), "cotta", recovery="never").recipe["recovery_options"] == {}
    with pytest.raises(UnknownNameError, match="no option 'restore_share'"):
        adapt(tiny_resnet(), "cotta", recovery="never", restore_share=0.1)


def test_somebody_takes_every_option_of_every_preset() -> None:
    for name in recipe_names():
        recipe = recipe_of(name)
        kind = METHODS[recipe.method]
        recoveries = [RECOVERIES[recipe_of(entry).recovery] for entry in (recipe.method, name)]
        known = {option for part in (kind, *recoveries) for option in options_of(part)}
        known.add("epochs")  # of an offline protocol
        for preset, options in resolve(name).presets.items():
            assert options.keys() <= known, f"{name}, preset {preset}"


def test_a_share_beyond_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be a number from 0 to 1, got 1\.5"):
        resolve("cotta", restore_share=1.5)
