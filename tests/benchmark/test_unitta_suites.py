"""The UniTTA suites hold the settings of the paper's tables, at every scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from holdfast.benchmark import load_suite, run
from holdfast.data import Digits
from holdfast.models import digits_resnet
from holdfast.models.cifar_resnext import CifarResNeXt
from holdfast.models.wide_resnet import WideResNet
from holdfast.report.as_published import published_rows
from holdfast.streams import STREAMS, UNITTA_MAIN, UNITTA_SETTINGS


@pytest.mark.parametrize("scale", [None, "smoke", "small", "paper"])
@pytest.mark.parametrize(("name", "settings"), [("unitta", tuple(UNITTA_SETTINGS)), ("unitta-main", UNITTA_MAIN)])
def test_every_setting_occurs_once_under_its_name(name: str, settings: tuple[str, ...], scale: str | None) -> None:
    suite = load_suite(name, scale=scale)
    assert tuple(stream.spec.options["setting"] for stream in suite.streams) == settings
    assert tuple(stream.spec.label for stream in suite.streams) == settings
    assert len({job.name for job in suite.jobs()}) == len(suite.jobs())


def test_both_suites_compare_the_same_methods_under_the_same_rules() -> None:
    one, other = load_suite("unitta"), load_suite("unitta-main")
    assert one.recipes == other.recipes
    for scale in ("paper", "paper-cifar100", "paper-imagenet"):
        both = [load_suite(name, scale=scale) for name in ("unitta", "unitta-main")]
        assert both[0].recipes == both[1].recipes
        assert both[0].models == both[1].models
        assert [stream for stream in both[0].streams if stream.spec.label in UNITTA_MAIN] == both[1].streams
    assert [stream for stream in one.streams if stream.spec.label in UNITTA_MAIN] == other.streams


def test_the_whole_suite_also_averages_over_the_main_settings(tmp_path: Path) -> None:
    suite = load_suite("unitta", scale="smoke")
    assert [tuple(labels) for labels in suite.averages.values()] == [UNITTA_MAIN]
    folder = run(suite.jobs()[0], tmp_path)
    assert json.loads((folder / "manifest.json").read_text())["averages"] == suite.averages


def test_the_stream_of_every_entry_can_be_built() -> None:
    data = Digits("test")
    for entry in load_suite("unitta").streams:
        assert entry.spec.build(STREAMS, data).length == 3000
    for entry in load_suite("unitta-main", scale="paper").streams:
        plan = entry.spec.build(STREAMS, data).plan
        assert (plan.spec()["mode"], plan.spec()["samples_per_cell"]) == ("official", 1000)
        assert plan.length is not None
        assert 20_000 < plan.length <= 150_000


def test_the_sensitivity_suite_varies_one_thing_at_a_time() -> None:
    data = Digits("test")
    suite = load_suite("unitta-sensitivity")
    base, layer, *others = suite.streams
    wanted = base.spec.build(STREAMS, data).plan.spec()
    assert layer.spec.build(STREAMS, data).plan.spec() == wanted
    for entry in others:
        spec = entry.spec.build(STREAMS, data).plan.spec()
        differing = [
            (chain, option)
            for chain, own, other in (
                ("class", spec["class_chains"][0], wanted["class_chains"][0]),
                ("domain", spec["domain_chain"], wanted["domain_chain"]),
            )
            for option in own
            if own[option] != other[option]
        ]
        changed = [("batch", "")] * (entry.batch_size is not None) + differing
        assert ["-".join(change).strip("-") for change in changed] == [entry.spec.label.rpartition("-")[0]]
    names = {name for name, _ in digits_resnet().named_modules()}
    assert {recipe.options["prediction_layer"] for recipe in layer.recipes or []} < names
    paper = load_suite("unitta-sensitivity", scale="paper").streams[1].recipes or []
    with torch.device("meta"):
        tables = {WideResNet(): paper, CifarResNeXt(): load_suite("unitta-sensitivity", scale="paper-layer").recipes}
    for network, recipes in tables.items():
        assert {recipe.options["prediction_layer"] for recipe in recipes} < {
            name for name, _ in network.named_modules()
        }


@pytest.mark.parametrize(
    ("scale", "network"),
    [("paper", WideResNet), ("paper-cifar100", CifarResNeXt)],
)
def test_the_tables_have_every_row_with_the_published_presets(scale: str, network: type) -> None:
    recipes = {recipe.label: recipe for recipe in load_suite("unitta", scale=scale).recipes}
    published = {(row["recipe"]) for row in published_rows() if row["suite"] == "unitta"}
    assert published <= set(recipes)
    assert all(recipes[name].options["preset"] == "unitta" for name in ("cotta", "rotta", "lame", "roid", "note"))
    with torch.device("meta"):
        names = {name for name, _ in network().named_modules()}
    assert {recipes[name].options["prediction_layer"] for name in ("bdn", "unitta")} < names


def test_a_smoke_run_of_a_setting_ends_and_names_its_chains(tmp_path: Path) -> None:
    jobs = load_suite("unitta-main", scale="smoke").jobs()
    job = next(job for job in jobs if job.stream.label == "(n,u)/(i,1)" and job.recipe.name == "batch_norm")
    folder = run(job, tmp_path)
    plan = json.loads((folder / "manifest.json").read_text())["stream"]["spec"]["plan"]
    assert (plan["kind"], plan["mode"], plan["samples"]) == ("markov", "stationary", 3000)
    assert plan["class_chains"][0]["imbalance"] == 10
    assert json.loads((folder / "summary.json").read_text())["samples"] == 64
