"""Every table and figure of the four papers is a job of a suite, a part of the report, or explained."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache

import pytest
import yaml

from holdfast.benchmark import Job, load_suite, suite_names
from holdfast.report.published import published_rows


@dataclass(frozen=True)
class Jobs:
    """Jobs of a suite at a scale, at least one of which has these labels."""

    suite: str
    scale: str = "paper"
    stream: str = ""
    recipe: str = ""
    model: str = ""


@dataclass(frozen=True)
class Shown:
    """A function that draws or prints it, from the runs of a suite or without any."""

    function: str


@dataclass(frozen=True)
class Explained:
    """Why there is no job."""

    reason: str


PLACES: dict[str, list[Jobs | Shown | Explained]] = {
    # RDumb (Press et al., NeurIPS 2023)
    "RDumb Figure 1": [Jobs("ccc", stream="medium-1000", recipe="rdumb"), Shown("holdfast.report.plots:over_time")],
    "RDumb Figure 2": [Shown("holdfast.streams:walk_strip")],
    "RDumb Figure 3": [Jobs("ccc", recipe="eta"), Shown("holdfast.report.plots:over_time")],
    "RDumb Figure 4": [
        Jobs("ccc-backbones", stream="medium-1000", model="ViT-B16"),
        Jobs("ccc-backbones", "paper-cin-c", stream="cin-c", model="ViT-B16"),
    ],
    "RDumb Figure 5": [Jobs("eta-speed", stream="severity-5", recipe="eta"), Jobs("eta-speed", recipe="eata")],
    "RDumb Figure 6": [Jobs("ccc", recipe="cpl"), Shown("holdfast.report.plots:over_time")],
    "RDumb Figure 7": [Shown("holdfast.streams:write_walk_gif")],
    "RDumb Table 1": [
        Jobs("ccc", stream="hard-5000", recipe="rdumb"),
        Jobs("cin-c", stream="cin-c"),
        Jobs("cin-c", stream="cin-3dcc"),
    ],
    "RDumb Table 2": [Jobs("ccc-backbones", model=label) for label in ("RN18", "RN50-augmix", "MaxViT", "Swin-T")],
    "RDumb Table 3": [Jobs("cin-c-holdout", recipe="rdumb-125"), Jobs("cin-c-holdout", recipe="rdumb-2000")],
    "RDumb Table 4": [Jobs("ccc-studies", recipe="eata-H0-0.1"), Jobs("ccc-studies", recipe="rdumb-H0-0.7")],
    "RDumb Table 5": [Shown("holdfast.cli.calibrate:calibrate")],  # prints the steps of every transition
    "RDumb Table 6": [Jobs("cin-c-holdout", recipe="eata-25"), Jobs("cin-c-holdout", recipe="eata-2000")],
    "RDumb Table 7": [Jobs("ccc-studies", recipe="eata-100"), Jobs("cin-c", stream="cin-c", recipe="eata-100")],
    "RDumb Table 8": [Jobs("ccc-backbones", recipe="eata-4000", model="ViT-B16")],
    # UniTTA (Du et al., arXiv 2407.20080)
    "UniTTA Figure 1": [Explained("a drawing of how the chains are sampled")],
    "UniTTA Figure 2": [Explained("a drawing of the method")],
    "UniTTA Figure 3": [
        Jobs("unitta-sensitivity", stream="class-stay-0.99"),
        Jobs("unitta-sensitivity", stream="domain-imbalance-6"),
        Shown("holdfast.report.sweeps:sweep_figure"),
    ],
    "UniTTA Figure 4": [Jobs("unitta-sensitivity", stream="batch-16", recipe=name) for name in ("lame", "note")],
    "UniTTA Figure 5": [Jobs("unitta-sensitivity", "paper-layer", recipe="bdn (2,0)")],
    "UniTTA Figure 6": [Jobs("unitta", recipe="bdn"), Shown("holdfast.report.plots:gauge_over_time")],
    "UniTTA Table 1": [Shown("holdfast.streams:unitta_setting")],  # settings of other papers by name
    "UniTTA Table 2": [Jobs("unitta-main", "paper-imagenet", stream="(n,u)/(n,u)", recipe="unitta")],
    "UniTTA Table 3": [Jobs("unitta", scale) for scale in ("paper", "paper-cifar100", "paper-imagenet")],
    "UniTTA Table 4": [Jobs("unitta", recipe="robust_bn (tables)"), Jobs("unitta", recipe="lame")],
    "UniTTA Table 5": [Explained("time of sampling: benchmarks/sampler.py measures it on your machine")],
    "UniTTA Table 6": [Jobs("unitta-main", stream="(n,1)/(1,1)", recipe="note")],
    "UniTTA Table 7": [Jobs("unitta", stream="(i,u)/(1,u)", recipe="roid")],
    "UniTTA Table 8": [Jobs("unitta-main", "paper-cifar100", stream="(n,1)/(1,1)")],
    "UniTTA Table 9": [Jobs("unitta", "paper-cifar100", stream="(i,u)/(1,u)")],
    "UniTTA Table 10": [Jobs("unitta-main", "paper-imagenet", stream="(n,1)/(1,1)")],
    "UniTTA Table 11": [Jobs("unitta", "paper-imagenet", stream="(i,u)/(1,u)")],
    "UniTTA Appendix C.2": [Explained("higher-order chains are discussed, and no number is given for them")],
    # AETTA (Lee et al., CVPR 2024)
    "AETTA Figure 1": [Explained("a drawing of the method")],
    "AETTA Figure 2": [
        Jobs("aetta-continual", recipe="tent"),
        Shown("holdfast.report.plots:confidence_over_time"),
        Shown("holdfast.report.plots:entropy_over_time"),
    ],
    "AETTA Figure 3": [Jobs("aetta-continual", recipe="tent"), Shown("holdfast.report.estimate_plots:calibration")],
    "AETTA Figure 4": [
        Jobs("aetta-continual", "paper-imagenet"),
        Shown("holdfast.report.estimate_plots:estimates_over_time"),
    ],
    "AETTA Figure 5": [Jobs("aetta-sensitivity", stream="cifar100-c", recipe="tent")],
    "AETTA Figure 6": [Jobs("recovery", recipe="tent + estimate_drop"), Shown("holdfast.report.plots:over_time")],
    "AETTA Table 1": [Jobs("aetta-fully", scale) for scale in ("paper", "paper-cifar100", "paper-imagenet")],
    "AETTA Table 2": [Jobs("aetta-continual", scale) for scale in ("paper", "paper-cifar100", "paper-imagenet")],
    "AETTA Table 3": [Jobs("recovery", recipe="sotta + oracle")],
    "AETTA Appendix B": [
        Explained("the original GDE is gde with network=…, another trained network; none were released")
    ],
    # DHAuDS (Shao et al., arXiv 2511.18421)
    "DHAuDS Figure 1": [Jobs("dhauds", "paper-curves", recipe="amaut momentum 0.9")],
    "DHAuDS Figure 2": [Jobs("dhauds", "paper-curves", recipe="amaut one rate")],
    "DHAuDS Figure 3": [Jobs("dhauds", "paper-curves", stream="rs-TST-L1", recipe="conmix")],
    "DHAuDS Figure 4": [Jobs("dhauds", "paper-curves", recipe="hubert momentum 0.9")],
    "DHAuDS Figure 5": [Jobs("dhauds", "paper-curves", recipe="conmix momentum 0.9")],
    "DHAuDS Figure 6": [Jobs("dhauds", "paper-curves", recipe="hubert one rate")],
    "DHAuDS Figure 7": [Jobs("dhauds", "paper-curves", recipe="conmix one rate")],
    "DHAuDS Table 1": [Explained("a comparison of other papers")],
    "DHAuDS Table 2": [Shown("holdfast.corruptions.audio.dhauds:criteria")],
    "DHAuDS Table 3": [Shown("holdfast.corruptions.audio.dhauds:criteria")],
    "DHAuDS Table 4": [Shown("holdfast.audio:CLIPS")],
    "DHAuDS Table 5": [
        Jobs("dhauds", stream="rs-PSH-L2", recipe="dhauds as published for AMAuT"),
        Jobs("dhauds", stream="vs-PSH-L2", recipe="dhauds as published for HuBERT"),
        Jobs("dhauds", "paper-hubert-us8", recipe="dhauds as published for HuBERT"),
        Jobs("dhauds", stream="sc2-WHN-L1", recipe="conmix"),
    ],
    "DHAuDS Table 6": [Jobs("dhauds"), Shown("holdfast.report.before_after:make_gains")],  # number, extent and mean
    "DHAuDS Table 7": [Jobs("dhauds", stream="sc2-WHN-L1"), Shown("holdfast.report.before_after:make_gains")],
    "DHAuDS Table 8": [Jobs("dhauds", stream="rs-WHN-L1"), Shown("holdfast.report.before_after:make_gains")],
    "DHAuDS Table 9": [Jobs("dhauds", recipe="conmix without pseudo-labels")],
    "DHAuDS Table 10": [Explained("`--set scores=[silhouette]` with `dhauds`: the tokens of all clips need memory")],
    "DHAuDS Table 11": [Jobs("dhauds-clean", model="amaut-us8"), Jobs("dhauds-clean", model="conmix-rs")],
}
COUNTS = {"RDumb": (7, 8), "UniTTA": (6, 11), "AETTA": (6, 3), "DHAuDS": (7, 11)}  # figures, tables


@lru_cache
def jobs_of(suite: str, scale: str) -> tuple[Job, ...]:
    return tuple(load_suite(suite, scale=scale).jobs())


def test_the_list_is_complete() -> None:
    for paper, (figures, tables) in COUNTS.items():
        numbers = [f"{paper} Figure {k + 1}" for k in range(figures)] + [
            f"{paper} Table {k + 1}" for k in range(tables)
        ]
        assert set(numbers) <= set(PLACES)


@pytest.mark.parametrize("name", PLACES)
def test_a_table_or_figure_has_its_place(name: str) -> None:
    assert PLACES[name]
    for place in PLACES[name]:
        if isinstance(place, Jobs):
            assert any(
                job.stream.label.startswith(place.stream)
                and place.recipe in ("", job.recipe.label)
                and place.model in ("", job.model.label)
                for job in jobs_of(place.suite, place.scale)
            ), place
        elif isinstance(place, Shown):
            module, _, function = place.function.partition(":")
            assert hasattr(importlib.import_module(module), function)
        else:
            assert place.reason


def test_every_published_number_belongs_to_a_job() -> None:
    """A row of published.csv whose suite, recipe or column is in no job would never be shown."""
    scales = {
        name: [scale for scale in load_suite(name).scales if scale.startswith("paper")]
        for name in {row["suite"] for row in published_rows()}
    }
    for suite, names in scales.items():
        jobs = [job for scale in names for job in jobs_of(suite, scale)]
        labels = {job.recipe.label for job in jobs}
        columns = (
            {job.stream.label for job in jobs} | {job.stream.label.rpartition("-")[0] for job in jobs} | {"average"}
        )
        for row in published_rows():
            if row["suite"] == suite:
                assert row["recipe"] in labels, row
                assert row["column"] in columns, row


@pytest.mark.parametrize("name", suite_names())
def test_scales_of_papers_use_no_embedded_data(name: str) -> None:
    for scale in load_suite(name).scales:
        if scale.startswith("paper"):
            for job in jobs_of(name, scale):
                assert job.data.name not in ("digits", "keywords"), (name, scale, yaml.safe_dump(job.to_json()))
