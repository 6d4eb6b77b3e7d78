"""Options: the same mistake gets the same sentence whoever passes it, and what cannot be is refused before it runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import holdfast
from holdfast.benchmark import SuiteError, parse_suite
from holdfast.cli.options import parse_mapping
from holdfast.data import DATASETS, Digits
from holdfast.estimators import ESTIMATORS
from holdfast.methods import METHODS
from holdfast.models import MODELS
from holdfast.models.tiny import tiny_resnet
from holdfast.options.problems import _expected, problems
from holdfast.options.spec import Spec
from holdfast.options.yaml_text import load_yaml
from holdfast.recipes import RECIPES, recipe_names, resolve
from holdfast.recovery import RECOVERIES
from holdfast.registry import Registry, UnknownNameError, options_of, parameters_of
from holdfast.serve.tenants import Tenants
from holdfast.streams import ORDERS, STREAMS, continual

SUITE = """name: small
models: [digits_resnet]
streams: [{name: continual, data: digits, corruptions: [fog], samples_per_domain: 64}]
recipes: [tent]
"""
REGISTRIES: list[Registry[Any]] = [METHODS, RECOVERIES, ESTIMATORS, STREAMS, DATASETS, MODELS, ORDERS]
MISTAKES = [
    ({"lrr": 1}, "method 'tent' has no option 'lrr'; did you mean 'lr'?"),
    ({"lr": "fast"}, "lr of method 'tent' must be a number of at least 0, got 'fast'"),
    ({"lr": -1.0}, "lr of method 'tent' must be a number of at least 0, got -1.0"),
    ({"lr": float("nan")}, "lr of method 'tent' must be a finite number of at least 0, got nan"),
    ({"lr": float("inf")}, "lr of method 'tent' must be a finite number of at least 0, got inf"),
    ({"lr": True}, "lr of method 'tent' must be a number of at least 0, got True"),
    ({"momentum": 1}, "momentum of method 'tent' must be a number from 0 to below 1, got 1"),
    ({"optimizer": "sgdd"}, "optimizer of method 'tent' must be 'sgd' or 'adam', got 'sgdd'"),
    ({"steps": 0}, "steps of method 'tent' must be a whole number from 1 to 1,000,000,000, got 0"),
    ({"nesterov": "yes"}, "nesterov of method 'tent' must be true or false, got 'yes'"),
]


def doors(options: dict[str, Any]) -> Iterator[str]:
    """Yield what each way to pass options of TENT says."""
    network = tiny_resnet()
    written = Spec("tent", options=options).to_text()
    around = Spec("guard", options={"base": "tent", "base_options": options}).to_text()
    for call in (
        lambda: holdfast.adapt(network, "tent", **options),
        lambda: holdfast.guard(network, "tent", options=options),
        lambda: holdfast.adapt(network, "guard", base="tent", base_options=options),
        lambda: holdfast.adapt(network, "reservoir", base="tent", base_options=options),
        lambda: Tenants(network, "tent", options=options),
        lambda: Tenants(network, "tent", guarded=False, options=options),
        lambda: parse_suite(SUITE.replace("[tent]", f"[{written}]")),
        lambda: parse_suite(SUITE.replace("[tent]", f"[{around}]")),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            call()
        assert isinstance(caught.value, (UnknownNameError, SuiteError))
        yield str(caught.value).removeprefix("suite, line 4: ")


@pytest.mark.parametrize(("options", "sentence"), MISTAKES)
def test_the_same_mistake_gets_the_same_sentence_everywhere(options: dict[str, Any], sentence: str) -> None:
    assert set(doors(options)) == {sentence}


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_option_is_checked_and_every_default_allowed(registry: Registry[Any]) -> None:
    for name in registry:
        entry = registry[name]
        for option, parameter in parameters_of(entry).items():
            if parameter.annotation is not parameter.empty and option not in ("data", "model"):
                assert _expected(entry, option)[1] is not None, f"{registry.kind} {name}: {option} cannot be checked"
        given = {option: each.default for option, each in options_of(entry).items() if each.default is not each.empty}
        wrong = [sentence for option, sentence in problems(entry, given, owner=name) if option]
        assert not wrong, wrong


@pytest.mark.parametrize("name", recipe_names())
def test_every_published_setting_is_allowed(name: str) -> None:
    resolved = resolve(name)
    for options in (*resolved.presets.values(), resolved.published.options):
        assert isinstance(resolved.recovery, str)
        for part in (resolved.kind, RECOVERIES[resolved.recovery]):
            known = {option: value for option, value in options.items() if option in options_of(part)}
            assert not list(problems(part, known, owner=name))


def test_guard_keeps_the_recovery_of_a_recipe_and_lets_it_act_on_the_adapted_network() -> None:
    batches = torch.rand(4, 8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    model = holdfast.guard(tiny_resnet(), "rdumb", options={"every_batches": 2, "lr": 0.1}, source=[batches[0]])
    assert (model.recipe["recovery"], model.recipe["recovery_options"]) == (
        "periodic",
        {"every_batches": 2, "scope": "full"},
    )
    assert model.recipe["options"]["base"] == "eta"
    assert [model.step(batch).recovered for batch in batches[:3]] == [None, None, "2 batches since the last reset"]
    assert model.method.batches == 3  # of the guard itself, which is not reset
    assert model.method.recovering.batches == 1


@pytest.mark.parametrize("name", [name for name in recipe_names() if name != "guard"])
def test_guard_takes_every_recipe_that_adapt_takes(name: str) -> None:
    source = [torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))]
    views = {"views": 2} if name == "cotta" else {}
    alone = holdfast.adapt(tiny_resnet(), name, source=source, **views)
    guarded = holdfast.guard(tiny_resnet(), name, options=views, source=source)
    for key in ("recovery", "recovery_options"):
        assert guarded.recipe[key] == alone.recipe[key]
    assert type(guarded.method.recovering) is type(alone.method)
    inside = {option: getattr(guarded.method.recovering, option) for option in alone.recipe["options"]}
    assert {option: list(value) if isinstance(value, tuple) else value for option, value in inside.items()} == (
        alone.recipe["options"]
    )


def test_a_preset_by_name_is_the_whole_setting_inside_the_guard() -> None:
    alone = holdfast.adapt(tiny_resnet(), "sar", preset="aetta").recipe
    guarded = holdfast.guard(tiny_resnet(), "sar", options={"preset": "aetta"})
    assert guarded.recipe["recovery_options"] == alone["recovery_options"]
    assert guarded.recipe["recovery_options"]["keep_average"]
    assert {**guarded.recipe["options"]["base_options"], "seed": 0} == alone["options"]


def test_the_recovery_of_a_guarded_recipe_can_be_left_out_or_replaced() -> None:
    for given, expected in (({"recovery": "never"}, "never"), ({"recovery": "episodic"}, "episodic")):
        assert holdfast.guard(tiny_resnet(), "sar", options=given).recipe["recovery"] == expected
        assert holdfast.adapt(tiny_resnet(), "guard", base="sar", **given).recipe["recovery"] == expected
    with pytest.raises(UnknownNameError, match=r"'reservoir' cannot keep the recovery 'loss_collapse' of 'sar'"):
        resolve("reservoir", base="sar")


def test_adapting_with_the_guard_is_guarding() -> None:
    batch = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    adapted, guarded = (
        holdfast.adapt(tiny_resnet(), "guard", source=[batch]),
        holdfast.guard(tiny_resnet(), source=[batch]),
    )
    assert adapted.recipe == guarded.recipe
    assert adapted.recipe["options"]["base"] == "auto"
    assert torch.equal(adapted(batch), guarded(batch))
    with pytest.raises(UnknownNameError, match="'auto' adapts nothing and has no option 'lr'; name a method"):
        holdfast.guard(tiny_resnet(), options={"lr": 0.1})


def test_a_stream_names_itself_and_says_where_a_batch_size_goes() -> None:
    wrong = r"^stream 'continual' has no option 'batch_size'; pass it to starting_at\(batch_size=…\)"
    with pytest.raises(UnknownNameError, match=wrong):
        continual(Digits(), batch_size=64)  # type: ignore[call-arg]
    with pytest.raises(UnknownNameError, match=r"^stream 'markov' needs corruptions"):
        STREAMS["markov"](Digits())
    assert list(inspect.signature(continual).parameters)[:2] == ["data", "corruptions"]


def test_numbers_of_the_command_line_are_those_of_yaml_1_2() -> None:
    assert parse_mapping("--options", "{lr: 1e-3}") == {"lr": 0.001}
    with pytest.raises(ValueError, match=r"--options must be a mapping, got '3'; write e.g."):
        parse_mapping("--options", "3")
    with pytest.raises(ValueError, match=r"--options is not YAML, got '{lr'; write e.g."):
        parse_mapping("--options", "{lr")


def test_aliases_that_explode_are_refused_in_one_sentence() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(12)]
    with pytest.raises(SuiteError, match=r"^suite cannot be read: with its aliases written out it has .* over 100000"):
        parse_suite("\n".join(levels))
    with pytest.raises(SuiteError, match="nested too deeply, or an alias holds itself"):
        parse_suite("a: &a [*a]")
    with pytest.raises(SuiteError, match="nested too deeply"):
        parse_suite("[" * 5000)
    assert load_yaml("{a: &b [1, 2], c: *b}") == {"a": [1, 2], "c": [1, 2]}


@pytest.mark.parametrize("old", ["name: small", "tent"])
def test_names_that_no_file_system_takes_are_refused_before_a_run(old: str) -> None:
    long = "name: " + "x" * 300 if old == "name: small" else "{name: tent, label: " + "ü" * 120 + "}"
    with pytest.raises(
        ValueError, match=r"a name of \d+ bytes, and file systems take 255; shorten the names or labels"
    ):
        parse_suite(SUITE.replace(old, long)).jobs()


def test_recipes_are_checked_like_methods() -> None:
    assert {"rdumb", "come_tent"} <= {*RECIPES.names()}
    with pytest.raises(
        UnknownNameError, match=r"^recipe 'rdumb' has no option 'every_batch'; did you mean 'every_batches'"
    ):
        resolve("rdumb", every_batch=3)
    with pytest.raises(
        UnknownNameError, match=r"^every_batches of recovery 'periodic' must be a whole number from 1 to"
    ):
        resolve("rdumb", every_batches=0)
