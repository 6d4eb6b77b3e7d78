"""A job is published only if every field is that of the shipped suite at the scale of the paper."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import pytest

from holdfast.benchmark import load_suite as load_suite_anew
from holdfast.benchmark import suite_names
from holdfast.benchmark.job import Job, SourceData
from holdfast.benchmark.manifest import resolved_names
from holdfast.options.spec import Spec
from holdfast.report import as_published
from holdfast.report.as_published import Publication, published_rows
from holdfast.report.as_published import publication_of as publication_of_manifest
from holdfast.report.runs import Manifest
from holdfast.streams.walks.difficulty import OFFICIAL_TARGETS_PERCENT

load_suite = lru_cache(load_suite_anew)  # suites are large, and no test changes one


@pytest.fixture(scope="module")
def job() -> Job:
    """TENT on CIFAR-10-C with all estimators of AETTA's Table 2."""
    jobs = load_suite("aetta-continual", scale="paper").jobs()
    return next(job for job in jobs if job.recipe.label == "sotta")


def publication_of(job: Job, material: dict[str, Any] | None = None) -> Publication | None:
    """Compare a job as its manifest keeps it, by default with the documented data and weights."""
    content = {"asked": job.to_json(), "resolved": resolved_names(job), "material": material or documented(job)}
    return publication_of_manifest(json.loads(json.dumps(content)))


def documented(job: Job) -> dict[str, Any]:
    """Return data and weights of the documented sizes, and a walk made from imported matrices."""
    folder = PurePath(job.data.options.get("folder") or job.data.options.get("paths") or "").name
    aliases = {"stored_speech_commands_c": "sc2_c"}
    data = row_of("data", f"{aliases.get(job.data.name, job.data.name)} {folder}")
    classes = job.model.options.get("num_classes")
    weights = row_of("weights", " ".join(map(str, [job.model.name, job.model.label, *([classes] if classes else [])])))
    return {
        "data": {"samples": int(data.get("count", 0)), "classes": int(data.get("classes", 0)), "digest": "d"},
        "weights": {"parameters": int(weights.get("count", 0)), "digest": "w"},
        "calibration": {
            "imported": True,
            "target_percent": OFFICIAL_TARGETS_PERCENT.get(job.stream.label.partition("-")[0], 0.0),
            "images": None,
            "points": 441,
            "own": [],
        },
    }


def row_of(kind: str, name: str) -> Mapping[str, str]:
    rows = (
        row
        for row in published_rows("published_material.csv")
        if row["kind"] == kind and fnmatchcase(name, row["name"])
    )
    return next(rows, {})


def with_options(spec: Spec, **options: Any) -> Spec:
    return Spec(spec.name, spec.label, {**spec.options, **options})


def test_the_published_job_has_no_deviation_wherever_the_data_are(job: Job) -> None:
    for elsewhere in (
        job,
        replace(job, data=with_options(job.data, folder="/mnt/CIFAR-10-C")),
        replace(job, model=with_options(job.model, weights="/mnt/mine.pt")),
        replace(job, estimators=(*job.estimators, Spec("gde", "another"))),
        replace(job, estimators=()),
    ):
        publication = publication_of(elsewhere, documented(job))
        assert publication is not None
        assert (publication.deviations, publication.seeds) == ((), (0, 1, 2))


CHANGES: dict[str, tuple[Callable[[Job], Job], str]] = {
    "network": (lambda job: replace(job, model=Spec("cifar_resnet", job.model.label)), "model.name is cifar_resnet"),
    "weights": (
        lambda job: replace(job, model=with_options(job.model, weights="IMAGENET1K_V1")),
        "model.weights is IMAGENET1K_V1",
    ),
    "model label": (lambda job: replace(job, model=Spec(job.model.name, "mine", job.model.options)), "model.label"),
    "data": (lambda job: replace(job, data=Spec("cifar10", options={"folder": "x"})), "stream.data.name is cifar10"),
    "severity": (lambda job: replace(job, stream=with_options(job.stream, severity=3)), "stream.severity is 3"),
    "rendering": (lambda job: replace(job, stream=with_options(job.stream, family="32")), "stream.family is 32"),
    "order": (lambda job: replace(job, stream=with_options(job.stream, order="sorted")), "stream.order is sorted"),
    "recipe option": (lambda job: replace(job, recipe=with_options(job.recipe, lr=0.1)), "recipe.lr is 0.1"),
    "preset": (lambda job: replace(job, recipe=Spec("sotta")), "recipe.preset is not set"),
    "recovery": (lambda job: replace(job, recipe=with_options(job.recipe, recovery="never")), "recipe.recovery"),
    "recipe label": (lambda job: replace(job, recipe=Spec("sotta", "mine")), "no published run is labelled"),
    "estimator": (lambda job: replace(job, estimators=(Spec("aetta", options={"masks": 3}),)), "the estimator aetta"),
    "source": (lambda job: replace(job, source=SourceData(spec=Spec("stream"), samples=10)), "source.samples is 10"),
    "holdout": (lambda job: replace(job, holdout=None), "holdout"),
    "batch size": (lambda job: replace(job, batch_size=32), "batch_size is 32 instead of 64"),
    "length": (lambda job: replace(job, samples=1000), "samples is 1000 instead of not set"),
    "seed": (lambda job: replace(job, seed=7), "seed is 7 instead of 0 or 1 or 2"),
    "protocol": (lambda job: replace(job, protocol="offline-fixed"), "no published run is labelled"),
    "epochs": (lambda job: replace(job, epochs=3), "epochs is 3 instead of 1"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_any_field_is_a_deviation(job: Job, field: str) -> None:
    change, words = CHANGES[field]
    publication = publication_of(change(job))
    assert publication is not None
    assert publication.deviations
    assert any(words in deviation for deviation in publication.deviations)


MATERIAL: dict[str, tuple[str, Any, str]] = {
    "samples": ("data.samples", 500, "the data has 500 samples instead of 10,000"),
    "classes": ("data.classes", 100, "the data has 100 classes instead of 10"),
    "parameters": ("weights.parameters", 1000, "the weights have 1,000 parameters instead of 11,173,962"),
}


@pytest.mark.parametrize("field", MATERIAL)
def test_other_data_or_weights_are_a_deviation_whatever_their_files_are_called(job: Job, field: str) -> None:
    path, value, words = MATERIAL[field]
    kind, key = path.split(".")
    material = documented(job)
    publication = publication_of(job, {**material, kind: {**material[kind], key: value}})
    assert publication is not None
    assert publication.deviations == (words,)


@pytest.mark.parametrize("kind", ["data", "weights"])
def test_another_digest_is_a_deviation_where_one_is_known(job: Job, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {**row, "digest": "known"} if row["kind"] == kind else row for row in published_rows("published_material.csv")
    ]
    monkeypatch.setattr(as_published, "published_rows", lambda _: rows)
    publication = publication_of(job)
    assert publication is not None
    assert publication.deviations == (f"the digest of the {kind} is {kind[0]} instead of known",)
    material = documented(job)
    same = publication_of(job, {**material, kind: {**material[kind], "digest": "known"}})
    assert same is not None
    assert same.deviations == ()


def test_a_run_that_does_not_say_what_it_used_is_not_as_published(job: Job) -> None:
    publication = publication_of_manifest(
        json.loads(json.dumps({"asked": job.to_json(), "resolved": resolved_names(job)}))
    )
    assert publication is not None
    assert "does not say which data" in publication.deviations[0]


def ccc_job(scale: str) -> Job:
    return next(job for job in load_suite("ccc", scale=scale).jobs() if job.recipe.label == "rdumb")


def test_official_shards_and_imported_matrices_are_the_published_protocol() -> None:
    for scale in ("paper-shards", "paper-matrices"):
        publication = publication_of(ccc_job(scale))
        assert publication is not None
        assert (publication.deviations, publication.seeds) == ((), (43, 44, 45))
    short = documented(ccc_job("paper-shards"))
    publication = publication_of(ccc_job("paper-shards"), {**short, "data": {**short["data"], "samples": 25_000}})
    assert publication is not None
    assert publication.deviations == ("the data has 25,000 samples instead of 7,500,000",)


WALKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "self-calibrated": ("paper", {"imported": False, "images": 5000}, "self-calibrated on 5,000 images at all 441"),
    "quickly": ("paper", {"imported": False, "images": 500, "points": 70}, "on 500 images at 70 of 441 points"),
    "own file": ("paper-matrices", {"imported": False, "images": 5000}, "the walk is self-calibrated"),
    "target": ("paper-matrices", {"target_percent": 34.0}, "the target of the walk is 34 % instead of 40 %"),
    "rules": ("paper-matrices", {"own": ["path_rule", "pairs"]}, "other settings than CCC's: path_rule, pairs"),
}


@pytest.mark.parametrize("case", WALKS)
def test_a_walk_that_was_calibrated_here_is_called_so(case: str) -> None:
    scale, changes, words = WALKS[case]
    material = documented(ccc_job(scale))
    publication = publication_of(ccc_job(scale), {**material, "calibration": {**material["calibration"], **changes}})
    assert publication is not None
    (deviation,) = publication.deviations
    assert words in deviation


def test_the_paper_scale_calibrates_as_the_matrices_were_measured() -> None:
    for suite in ("ccc", "ccc-studies"):
        streams = [entry.spec.options for entry in load_suite(suite, scale="paper").streams]
        assert {(stream["pictures"], stream["full_grid"]) for stream in streams} == {(5000, True)}


def test_figure_4a_takes_ten_orders() -> None:
    job = next(iter(load_suite("ccc-backbones", scale="paper-cin-c").jobs()))
    publication = publication_of(job)
    assert publication is not None
    assert (publication.deviations, publication.seeds) == ((), tuple(range(10)))
    other = publication_of(replace(job, seed=43))
    assert other is not None
    assert other.deviations


def test_material_is_documented_for_every_suite_with_published_numbers() -> None:
    for suite in {row["suite"] for row in published_rows()} | {"dhauds"}:
        for scale in (scale for scale in load_suite(suite).scales if scale.startswith("paper")):
            for job in load_suite(suite, scale=scale).jobs():
                material = documented(job)
                assert material["data"]["samples"], job.data
                assert material["weights"]["parameters"] or job.model.label == "MaxViT", job.model  # no number of it


def test_settings_of_the_paper_are_as_published_as_those_of_the_code() -> None:
    jobs = {job.recipe.label: job for job in load_suite("unitta", scale="paper").jobs()}
    (imagenet, *_) = load_suite("unitta", scale="paper-imagenet").jobs()
    unitta = jobs["unitta"]
    for same in (
        replace(unitta, recipe=with_options(unitta.recipe, distance="kl", class_momentum=0.005)),
        replace(imagenet, batch_size=32),
    ):
        publication = publication_of(same)
        assert publication is not None
        assert publication.deviations == ()
    other = publication_of(replace(unitta, recipe=with_options(unitta.recipe, class_momentum=0.02)))
    assert other is not None
    assert other.deviations == ("recipe.class_momentum is 0.02 instead of not set",)


def test_own_suites_and_embedded_data_have_nothing_to_compare_with(job: Job) -> None:
    assert publication_of(replace(job, suite="mine")) is None
    assert publication_of(load_suite("aetta-continual", scale="smoke").jobs()[0]) is None


def test_every_scale_of_a_paper_counts() -> None:
    for scale in ("paper", "paper-cifar100", "paper-imagenet"):
        publication = publication_of(load_suite("aetta-fully", scale=scale).jobs()[-1])
        assert publication is not None
        assert publication.deviations == ()


@pytest.mark.parametrize("suite", suite_names())
def test_every_job_at_the_scale_of_a_paper_is_as_published(suite: str) -> None:
    """The report reads the files of suites by itself; this holds it to the jobs that the benchmark makes of them."""
    for scale in load_suite(suite).scales:
        jobs = load_suite(suite, scale=scale).jobs() if scale.startswith("paper") else []
        for job in jobs[:: max(1, len(jobs) // 30)]:
            material = documented(job)
            if job.stream.name == "ccc" and "calibration" not in job.stream.options:  # calibrated when it is run
                material["calibration"]["imported"] = False
            publication = publication_of(job, material)
            assert publication is not None
            walk = () if material["calibration"]["imported"] else ("the walk is self-calibrated",)
            assert len(publication.deviations) == len(walk), (job.name, publication.deviations)
            assert all(map(str.startswith, publication.deviations, walk))
            assert job.seed in publication.seeds


def test_names_of_one_data_set_and_epochs_of_a_preset_are_those_of_the_manifest() -> None:
    suite = load_suite("dhauds", scale="paper")
    stored = [job for job in suite.jobs() if job.data.name == "sc2_c" and job.protocol != "online"]
    job = next(job for job in stored if job.resolved.epochs not in (None, suite.epochs))
    for same in (job, replace(job, data=Spec("stored_speech_commands_c", options=job.data.options))):
        publication = publication_of(same)
        assert publication is not None
        assert publication.deviations == ()
    publication = publication_of(replace(job, epochs=job.epochs + 1))
    assert publication is not None
    assert publication.deviations == (f"epochs is {job.epochs + 1} instead of {job.epochs}",)


def test_a_comparison_does_not_import_torch() -> None:
    code = (
        "import sys; from holdfast.report.as_published import publication_of; "
        "asked = {'suite': 'cin-c', 'recipe': {'label': 'tent'}, 'stream': {'label': '', 'data': {'name': 'own'}}}; "
        "assert publication_of({'asked': asked}).deviations; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_manifest_that_holds_the_comparison_keeps_it(job: Job) -> None:
    """Earlier versions compared when a job was run."""
    kept = {"deviations": ["batch_size is 32 instead of 64"], "seeds": [0]}
    content = {
        "schema": 1,
        "suite": job.suite,
        "job": job.name,
        "recipe": {"name": "sotta", "label": "sotta", "method": "sotta"},
        "model": {"name": "net", "parameters": 1, "normalisation": "batch"},
        "stream": {"name": "continual", "label": "continual", "domains": [], "length": None},
        "seed": 0,
        "protocol": {"protocol": "online"},
        "fingerprint": "",
        "asked": json.loads(json.dumps(job.to_json())),
    }
    for published, deviations in ((kept, ("batch_size is 32 instead of 64",)), (None, ())):
        manifest = Manifest.model_validate({**content, "material": documented(job), "published": published})
        assert manifest.published is not None
        assert manifest.published.deviations == deviations
    for other in ({}, {"suite": job.suite}, {"suite": job.suite, "stream": []}):  # jobs of another version
        assert Manifest.model_validate({**content, "asked": other}).published is None
