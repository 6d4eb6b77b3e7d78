"""What a suite needs: everything once, refused once, and its cost before the data are there."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from holdfast.benchmark import load_suite, parse_suite, suite_names
from holdfast.benchmark.preparation import (
    MissingError,
    check_ready,
    cost_of,
    declared_passes,
    missing,
    needs_of,
    passes_of,
    rate_of,
)
from holdfast.cli.commands import app
from holdfast.data import DATASETS
from holdfast.methods import METHODS
from holdfast.models import MODELS
from holdfast.options.needs import needs_in
from holdfast.options.plain_jobs import plain_jobs
from holdfast.options.sources import FULL_NAMES
from holdfast.options.spec import Spec
from holdfast.options.suite_files import scaled, suite_content
from holdfast.training import PROCEDURES

runner = CliRunner()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_everything_is_listed_once_with_address_size_and_checksum() -> None:
    jobs = load_suite("aetta-continual", scale="paper").jobs()
    needs = {need.location: need for need in missing(jobs)}
    assert set(needs) == {"data/CIFAR-10-C", "data/cifar10", "data/aetta/cifar10/cp_last.pth.tar"}
    stored = needs["data/CIFAR-10-C"]
    assert (stored.kind, stored.jobs, stored.source.size) == ("data", 21, "2.9 GB")
    assert "md5" in str(stored)
    assert "zenodo.org/records/2535967" in str(stored)


def test_a_need_that_one_job_has_twice_counts_as_one_job() -> None:
    suite = """\
name: shared
models: [cifar_resnet18]
streams: [{name: continual, data: {name: stored_cifar_c, folder: data/C, clean: data/cifar10}, corruptions: [fog]}]
source: {name: cifar10, folder: data/cifar10}
holdout: {name: cifar10, folder: data/cifar10, split: test}
estimators: [aetta]
recipes: [eata, poem]
"""
    needs = needs_of(parse_suite(suite).jobs())
    assert {need.location: need.jobs for need in needs} == {"data/C": 2, "data/cifar10": 2}


def test_packages_noise_and_calibrations_are_needed_too() -> None:
    backbones = {(need.kind, need.location) for need in needs_of(load_suite("ccc-backbones", scale="paper").jobs())}
    assert {("package", "torchvision"), ("package", "timm"), ("calibration", "data/ccc/medium-44.json")} <= backbones
    audio = needs_of(load_suite("dhauds", scale="paper").jobs())
    assert {"data/QUT-NOISE", "data/DEMAND", "data/SC2-C", "data/UrbanSound8K"} <= {need.location for need in audio}


def test_weights_that_one_has_to_train_come_with_the_command() -> None:
    suites = (("dhauds", "paper"), ("dhauds-clean", "paper"), ("dhauds-online", "paper"), ("promise", "paper"))
    needs = {need for suite, scale in suites for need in needs_of(load_suite(suite, scale=scale).jobs())}
    files = {need.location: need.source.address for need in needs if need.kind == "weights"}
    assert len(files) == 11
    for path, command in files.items():
        words = shlex.split(command.rpartition(" && ")[2])
        assert words[:2] == ["holdfast", "train"], path
        assert words[words.index("--out") + 1] == path
        data, model = Spec.parse(words[2]), Spec.parse(words[words.index("--model") + 1])
        assert data.name in DATASETS
        assert model.name in MODELS
        if "--procedure" in words:
            assert words[words.index("--procedure") + 1] in PROCEDURES
            assert data.options["folder"] in {need.location for need in needs}, "the folder is that of the suite"


def test_what_is_there_is_not_missing(elsewhere: Path) -> None:
    jobs = load_suite("unitta", scale="paper").jobs()
    (elsewhere / "data/CIFAR-10-C").mkdir(parents=True)
    assert [need.kind for need in missing(jobs)] == ["weights"]
    assert missing(load_suite("unitta", scale="smoke").jobs()) == []
    check_ready(load_suite("demo").jobs())


def test_data_in_the_home_folder_are_found(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{name: home, models: [digits_resnet], recipes: [source], streams: [{name: continual, corruptions: [fog], "
    jobs = parse_suite(text + "data: {name: cifar10, folder: ~/images}}]}").jobs()
    monkeypatch.setenv("HOME", str(elsewhere))
    assert [need.location for need in missing(jobs)] == ["~/images"]
    (elsewhere / "images").mkdir()
    assert missing(jobs) == []


def test_a_run_is_refused_with_one_list(elsewhere: Path) -> None:
    with pytest.raises(MissingError, match=r"2 things are missing; nothing was run\n- data CIFAR-10-C.*\n- weights"):
        check_ready(load_suite("unitta", scale="paper").jobs())
    result = runner.invoke(app, ["bench", "unitta", "--scale", "paper"])
    assert isinstance(result.exception, MissingError)
    assert str(result.exception).count("CIFAR-10-C: expected at") == 1
    assert not (elsewhere / "runs").exists()


def test_the_cost_is_known_before_the_data_are_there() -> None:
    jobs = load_suite("cin-c", scale="paper").jobs()
    cost = cost_of(jobs)
    assert cost.samples == 10 * 11 * (15 + 12) * 50_000
    assert cost.unknown == 0
    source = cost_of([job for job in jobs if job.recipe.name == "source"])
    assert source.passes == source.samples
    assert cost_of(load_suite("unitta", scale="paper").jobs()[:1]).samples == 150_000  # at most
    assert cost_of(load_suite("dhauds", scale="paper").jobs()[:1]).samples == 2_459 * 15


@pytest.mark.parametrize(("samples", "batches"), [(127, 2), (128, 2), (129, 3)])
def test_a_partial_batch_is_a_row_too(samples: int, batches: int) -> None:
    cost = cost_of([replace(load_suite("demo").jobs()[0], samples=samples, batch_size=64)])
    assert (cost.batches, cost.disk_mb) == (batches, pytest.approx(batches * 600 / 1e6))


def test_passes_are_those_that_methods_and_estimators_declare() -> None:
    jobs = {job.recipe.label: job for job in load_suite("cin-c", scale="paper").jobs()}
    assert [passes_of(jobs[name]) for name in ("source", "tent", "cotta", "eata")] == [1, 3, 36, 3]
    few = replace(jobs["cotta"], recipe=Spec("cotta", options={"views": 4}), known=None)
    assert passes_of(few) == 8
    watched = next(job for job in load_suite("aetta-fully", scale="paper").jobs() if job.recipe.label == "tent")
    # SrcValid 1000 / 64, GDE 1, AdvPerturb 4, AETTA and PDD the same ten masks, ours 1 and an eighth.
    assert passes_of(watched) == pytest.approx(3 + 1000 / 64 + 1 + 4 + 10 + 1.125)
    recovered = next(job for job in load_suite("recovery", scale="paper").jobs() if "estimate_drop" in job.recipe.label)
    assert passes_of(recovered) == 3 + 10


@pytest.mark.parametrize("name", METHODS.names())
def test_the_passes_of_every_method_can_be_counted(name: str) -> None:
    assert declared_passes(METHODS[name].passes) >= 1


def test_the_list_of_what_is_missing_comes_before_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; "
        "from holdfast.cli.commands import app; app(['prepare', 'dhauds', '--scale', 'paper'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode != 0  # nothing beyond the list
    assert ended.stdout.startswith("1044 jobs; 20 things needed, ")
    assert "\n- data US8-C: expected at data/US8-C" in ended.stdout
    assert "cost" not in ended.stdout


@pytest.mark.parametrize("suite", suite_names())
def test_the_list_from_the_file_alone_is_that_of_the_jobs(suite: str) -> None:
    for scale in load_suite(suite).scales:
        plain, jobs = list(plain_jobs(scaled(suite_content(suite), scale))), load_suite(suite, scale=scale).jobs()
        assert needs_in(plain) == needs_of(jobs)
        for one, job in zip(plain, jobs, strict=True):
            said = {"card": None, **job.to_json()}
            if job.resolved.epochs is None:  # which the file alone does not say
                assert one["epochs"] == said["epochs"]
            assert one.keys() <= said.keys()
            assert [key for key in one if one[key] != said[key]] in ([], ["epochs"])


def test_other_names_of_data_sets_are_those_of_the_registry() -> None:
    assert {alias: DATASETS.name_of(DATASETS[alias]) for alias in FULL_NAMES} == FULL_NAMES


def test_the_rate_is_measured_without_weights_where_they_are_missing() -> None:
    rate = rate_of(Spec("wide_resnet", options={"depth": 10, "width": 1, "weights": "absent.pt"}))
    assert rate is not None
    assert np.isfinite(rate)
    assert rate > 1
    assert rate_of(Spec("imported", options={"target": "no.such:thing"})) is None


@pytest.mark.slow
def test_the_commands() -> None:
    shown = runner.invoke(app, ["prepare", "recovery", "--no-measure"])
    assert shown.exit_code == 0
    assert "123 jobs; 2 things needed, 2 missing" in shown.stdout
    assert "18,420,480 predictions" in shown.stdout
    dry = runner.invoke(app, ["bench", "cin-c", "--scale", "smoke", "--dry-run"])
    assert dry.stdout.splitlines()[-1].startswith("10 jobs, none was run")
    assert sum("-cin-c-digits_resnet-" in line for line in dry.stdout.splitlines()) == 10


def test_the_hint_of_a_dry_run_works_for_a_suite_without_scales(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "{name: mine, models: [digits_resnet], recipes: [source], samples: 64, "
        "streams: [{name: continual, data: digits, corruptions: [fog]}]}"
    )
    shown = CliRunner().invoke(app, ["bench", str(path), "--dry-run"])
    assert shown.output.rstrip().endswith(f"holdfast prepare {path}")
    listed = CliRunner().invoke(app, ["prepare", str(path), "--no-measure"])
    assert listed.exit_code == 0
    assert listed.output.rstrip().endswith(f"everything is there; next: holdfast bench {path}")
