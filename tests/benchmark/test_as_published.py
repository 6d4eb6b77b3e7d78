"""A job is published only if every field is that of the shipped suite at the scale of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.benchmark import load_suite
from holdfast.benchmark.as_published import publication_of
from holdfast.benchmark.job import Job, SourceData
from holdfast.spec import Spec


@pytest.fixture(scope="module")
def job() -> Job:
    """TENT on CIFAR-10-C with all estimators of AETTA's Table 2."""
    jobs = load_suite("aetta-continual", scale="paper").jobs()
    return next(job for job in jobs if job.recipe.label == "sotta")


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
