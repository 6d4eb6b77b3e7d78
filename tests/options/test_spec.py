"""Specs: one way to write an entry, for suites, the command line and Python."""

from __future__ import annotations

import pickle

import pytest

from holdfast.data import DATASETS, Digits
from holdfast.options.spec import Spec
from holdfast.registry import Registry, UnknownNameError


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "tent", "label": "slow", "lr": 0.1},
        "{name: tent, label: slow, lr: 0.1}",
        "name: tent\nlabel: slow\nlr: 0.1\n",
        Spec("tent", "slow", {"lr": 0.1}),
    ],
)
def test_mappings_yaml_text_and_specs_say_the_same(entry: object) -> None:
    spec = Spec.parse(entry)
    assert spec == Spec("tent", "slow", {"lr": 0.1})
    assert Spec.parse(spec.to_json()) == spec
    assert hash(Spec.parse(spec.to_json())) == hash(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_numbers_are_written_as_in_any_other_language() -> None:
    written = {"a": 1e-3, "b": -1e-3, "c": 2.5e4, "d": -2.0e4, "e": 1e6, "f": 7, "g": -7, "h": 0.5}
    text = "{name: tent, a: 1e-3, b: -1e-3, c: +2.5E4, d: -2.e4, e: 1e+6, f: 7, g: -7, h: .5}"
    assert Spec.parse(text).options == written


@pytest.mark.parametrize("name", ["digits", "yes", "1e5", "null", "test (b)"])
def test_a_plain_name_is_a_name_whatever_yaml_makes_of_it(name: str) -> None:
    assert Spec.parse(name) == Spec(name, name)


def test_text_for_the_command_line_reads_back() -> None:
    spec = Spec("cifar10", options={"folder": "my data", "split": "train", "only": {"class": [1, 2]}})
    assert Spec.parse(spec.to_text()) == spec
    assert Spec("digits").to_text() == "digits"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{lr: 0.1}", "has no name; write a name, or"),
        (3, "has no name"),
        ({"name": 3}, "has no name"),
        ("{name: tent", "is not YAML; write a name, or"),
        ({"name": "tent", "label": 3}, "label must be text, got 3"),
    ],
)
def test_what_is_no_entry_is_refused_in_one_sentence(entry: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Spec.parse(entry)


def test_build_passes_options_and_refuses_those_that_the_caller_decides() -> None:
    built = Spec("digits", options={"split": "validation"}).build(DATASETS)
    assert isinstance(built, Digits)
    assert built.name == "digits/validation"
    with pytest.raises(UnknownNameError, match="data set 'digits' has no option 'splt'; did you mean 'split'"):
        Spec("digits", options={"splt": "test"}).build(DATASETS)
    with pytest.raises(UnknownNameError, match="did you mean 'digits'"):
        Spec("digts").build(DATASETS)
    with pytest.raises(UnknownNameError, match="has no option 'split'"):
        Spec("digits", options={"split": "test"}).build(DATASETS, "train")
    with pytest.raises(UnknownNameError, match="has no option 'split'"):
        Spec("digits", options={"split": "test"}).build(DATASETS, split="train")


def test_a_value_outside_a_literal_is_refused_before_building() -> None:
    with pytest.raises(
        UnknownNameError, match="split of data set 'digits' must be 'train', 'validation' or 'test', got 'validate'"
    ):
        Spec("digits", options={"split": "validate"}).build(DATASETS)


def test_names_for_further_keywords_are_no_options() -> None:
    registry: Registry[object] = Registry("stream", "streams")
    registry.register("open")(lambda data, *, severity=5, **options: (data, severity, options))
    problems = list(Spec("open", options={"options": 1, "severity": 2}).problems(registry, {"data"}))
    assert [key for key, _ in problems] == ["options"]
