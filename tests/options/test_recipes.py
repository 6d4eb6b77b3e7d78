"""Recipes: every option has one owner, and names that cannot be used are refused in one sentence."""

from __future__ import annotations

import pytest
import torch

from holdfast.methods import METHODS
from holdfast.model.adapt import adapt
from holdfast.models import Classifier
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import RecipeError, resolve
from holdfast.recovery import RECOVERIES
from holdfast.recovery.adaptive import Adaptive
from holdfast.registry import options_of

COLLIDING = [
    (method, recovery)
    for method in METHODS.names()
    for recovery in RECOVERIES.names()
    if (set(options_of(METHODS[method])) & set(options_of(RECOVERIES[recovery]))) - {"seed"}
]


def test_an_option_of_method_and_recovery_is_refused_until_it_has_one_owner() -> None:
    with pytest.raises(RecipeError, match=r"both the method 'tent' and the recovery 'adaptive' .* recovery_options="):
        adapt(tiny_resnet(), "tent", recovery="adaptive", momentum=0.5)
    recovery_only = adapt(tiny_resnet(), "tent", recovery="adaptive", recovery_options={"momentum": 0.5}).recipe
    assert (recovery_only["options"]["momentum"], recovery_only["recovery_options"]["momentum"]) == (0.9, 0.5)
    method_only = adapt(tiny_resnet(), "tent", recovery="adaptive", recovery_options={}, momentum=0.5).recipe
    assert (method_only["options"]["momentum"], method_only["recovery_options"]["momentum"]) == (
        0.5,
        Adaptive().momentum,
    )


@pytest.mark.parametrize(("method", "recovery"), COLLIDING)
def test_every_pair_that_shares_an_option_is_refused(method: str, recovery: str) -> None:
    shared = (set(options_of(METHODS[method])) & set(options_of(RECOVERIES[recovery]))) - {"seed"}
    for option in shared:
        with pytest.raises(RecipeError, match=f"an option {option!r}"):
            resolve(method, recovery=recovery, **{option: 0.5})


def test_the_seed_is_for_both() -> None:
    for given in (None, {}):
        recipe = adapt(tiny_resnet(), "cotta", recovery_options=given, seed=3).recipe
        assert (recipe["options"]["seed"], recipe["recovery_options"]["seed"]) == (3, 3)
    own = adapt(tiny_resnet(), "cotta", recovery_options={"seed": 4}, seed=3).recipe
    assert (own["options"]["seed"], own["recovery_options"]["seed"]) == (3, 4)


def test_none_is_the_published_recovery_and_never_switches_it_off() -> None:
    for given, expected in (
        ({}, "loss_collapse"),
        ({"recovery": None}, "loss_collapse"),
        ({"recovery": "never"}, "never"),
    ):
        assert resolve("sar", **given).recovery == expected
        assert adapt(tiny_resnet(), "sar", **given).recipe["recovery"] == expected
    said = " ".join((adapt.__doc__ or "").split())
    assert "None is the one that the recipe was published with" in said
    assert '"never" switches it off' in said


def test_options_that_only_the_recovery_has_need_no_mapping() -> None:
    assert resolve("rdumb", every_batches=3).recovery_options == {"every_batches": 3}
    assert resolve("rdumb", recovery_options={"every_batches": 3}).recovery_options == {"every_batches": 3}


def test_a_recovery_has_the_options_of_the_preset_but_for_those_that_are_given() -> None:
    recipe, network = resolve("asr_eta", preset="ccc-hard-vit", kept_slope=7.0), Classifier(tiny_resnet())
    published = recipe.presets["ccc-hard-vit"]
    built = vars(recipe.build_recovery(network))
    assert (built["start_share"], built["kept_slope"]) == (published["start_share"], 7.0)
    assert published["kept_slope"] != 7.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recovery_options": {"every_batch": 3}}, "recovery 'periodic' has no option 'every_batch'; did you mean"),
        ({"recovery_options": {}, "every_batches": 3}, "option of the recovery 'periodic'; put it in recovery_options"),
        ({"recovery_options": 3}, "recovery_options must be a mapping, got 3"),
        ({"recovery": Adaptive(), "recovery_options": {"momentum": 0.5}}, "already built"),
        ({"learning_rate": 3}, "recipe 'rdumb' has no option 'learning_rate'"),
        ({"method": "tent"}, "'rdumb' has no option 'method'"),
        ({"recovery": "periodc"}, "did you mean 'periodic'"),
        ({"recovery": 3}, "unknown recovery 3"),
        ({"preset": "ccd"}, "did you mean 'ccc'"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(options: dict[str, object], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        resolve("rdumb", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.b", "keys", "training", ""])
def test_an_estimator_name_that_torch_cannot_keep_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of an estimator; choose one without full stops"):
        adapt(tiny_resnet(), "source", estimator={name: "softmax_score"})
    named = adapt(tiny_resnet(), "source", estimator={"a_b": "softmax_score"})
    assert set(named.step(torch.rand(4, 3, 32, 32)).estimates) == {"a_b"}


def test_swapped_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"adapt\(network, 'tent'\)"):
        adapt("tent", tiny_resnet())  # type: ignore[arg-type]
