"""A job is published only if every field is that of the shipped suite at the scale of the paper."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.benchmark import load_suite, suite_names
from holdfast.benchmark.job import Job, SourceData
from holdfast.benchmark.manifest import resolved_names
from holdfast.options.spec import Spec
from holdfast.report.as_published import Publication
from holdfast.report.as_published import publication_of as publication_of_manifest
from holdfast.report.runs import Manifest


@pytest.fixture(scope="module")
def job() -> Job:
    """TENT on CIFAR-10-C with all estimators of AETTA's Table 2."""
    jobs = load_suite("aetta-continual", scale="paper").jobs()
    return next(job for job in jobs if job.recipe.label == "sotta")


def publication_of(job: Job) -> Publication | None:
    """Compare a job as its manifest keeps it."""
    return publication_of_manifest(json.loads(json.dumps({"asked": job.to_json(), "resolved": resolved_names(job)})))


def with_options(spec: Spec, **options: Any) -> Spec:
    return Spec(spec.name, spec.label, {**spec.options, **options})


def test_the_published_job_has_no_deviation_wherever_the_data_are(job: Job) -> None:
    for elsewhere in (
        job,
        replace(job, data=with_options(job.data, folder="/mnt/CIFAR-10-C")),
        replace(job, model=with_options(job.model, weights="/mnt/cp_last.pth.tar")),
        replace(job, estimators=(*job.estimators, Spec("gde", "another"))),
        replace(job, estimators=()),
    ):
        found = publication_of(elsewhere)
        assert found is not None
        assert (found.deviations, found.seeds) == ((), (0, 1, 2))


CHANGES: dict[str, tuple[Callable[[Job], Job], str]] = {
    "network": (lambda job: replace(job, model=Spec("cifar_resnet", job.model.label)), "model.name is cifar_resnet"),
    "weights": (lambda job: replace(job, model=with_options(job.model, weights="own.pt")), "model.weights is own.pt"),
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
    "source": (lambda job: replace(job, source=SourceData(Spec("stream"), 10)), "source.samples is 10"),
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
    found = publication_of(change(job))
    assert found is not None
    assert found.deviations
    assert any(words in deviation for deviation in found.deviations)


def test_own_suites_and_embedded_data_have_nothing_to_compare_with(job: Job) -> None:
    assert publication_of(replace(job, suite="mine")) is None
    assert publication_of(load_suite("aetta-continual", scale="smoke").jobs()[0]) is None


def test_every_scale_of_a_paper_counts() -> None:
    for scale in ("paper", "paper-cifar100", "paper-imagenet"):
        found = publication_of(load_suite("aetta-fully", scale=scale).jobs()[-1])
        assert found is not None
        assert found.deviations == ()


@pytest.mark.parametrize("suite", suite_names())
def test_every_job_at_the_scale_of_a_paper_is_as_published(suite: str) -> None:
    """The report reads the files of suites by itself; this holds it to the jobs that the benchmark makes of them."""
    for scale in load_suite(suite).scales:
        jobs = load_suite(suite, scale=scale).jobs() if scale.startswith("paper") else []
        for job in jobs[:: max(1, len(jobs) // 30)]:
            found = publication_of(job)
            assert found is not None
            assert found.deviations == (), job.name
            assert job.seed in found.seeds


def test_names_of_one_data_set_and_epochs_of_a_preset_are_those_of_the_manifest() -> None:
    suite = load_suite("dhauds", scale="paper")
    stored = [job for job in suite.jobs() if job.data.name == "sc2_c" and job.protocol != "online"]
    job = next(job for job in stored if job.resolved.epochs not in (None, suite.epochs))
    for same in (job, replace(job, data=Spec("stored_speech_commands_c", options=job.data.options))):
        found = publication_of(same)
        assert found is not None
        assert found.deviations == ()
    found = publication_of(replace(job, epochs=job.epochs + 1))
    assert found is not None
    assert found.deviations == (f"epochs is {job.epochs + 1} instead of {job.epochs}",)


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
        "protocol": {},
        "fingerprint": "",
        "asked": json.loads(json.dumps(job.to_json())),
    }
    for published, deviations in ((kept, ("batch_size is 32 instead of 64",)), (None, ())):
        manifest = Manifest.model_validate({**content, "published": published})
        assert manifest.published is not None
        assert manifest.published.deviations == deviations
    for other in ({}, {"suite": job.suite}, {"suite": job.suite, "stream": []}):  # jobs of another version
        assert Manifest.model_validate({**content, "asked": other}).published is None
