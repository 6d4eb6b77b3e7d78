"""Every table and figure of the four papers is a job of a suite, and a report shows its numbers, or it is explained."""

from __future__ import annotations

import importlib
import json
import re
import runpy
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from holdfast.benchmark import Job, load_suite, run, suite_names
from holdfast.calibration import calibration_of
from holdfast.report import report_sections, table_sections
from holdfast.report.as_published import published_rows
from holdfast.report.make import make_report
from holdfast.report.report import Report
from holdfast.report.section import Section
from holdfast.streams import Calibration

PAPERS = Path(__file__).resolve().parents[2] / "docs" / "papers.py"
ENTRIES = list(runpy.run_path(str(PAPERS))["entries"]()) if PAPERS.exists() else []

COUNTS = {"RDumb": (7, 8), "UniTTA": (6, 11), "AETTA": (6, 3), "DHAuDS": (7, 11)}  # figures, tables


# A few jobs of each suite at its smallest scale: labels of streams and recipes, and overrides.
SMALLEST: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ccc": ("easy|medium", "source|eta", {"streams.*.samples": 128}),
    "cin-c": ("cin-c", "source|eta", {}),
    "ccc-backbones": (".*", "source|eata", {}),
    "ccc-studies": (
        ".*",
        ".*",
        {
            "recipes": [
                "source",
                *({"name": "eata", "label": f"eata-{m}", "entropy_margin": m} for m in (0.2, 0.4, 0.6)),
            ]
        },
    ),
    "cin-c-holdout": (".*", "source|eta", {"seeds": [0]}),
    "eta-speed": ("severity-5", ".*", {}),
    "unitta": (r"\(i,1\)/\(1,.\)", "source|bdn", {}),
    "unitta-main": (r"\(n,1\)/\(1,1\)|\(n,u\)/\(1,1\)", "source|unitta", {}),
    "unitta-sensitivity": ("base|layer|class-stay-.*", ".*", {}),
    "aetta-fully": (".*", "tent", {}),
    "aetta-continual": (".*", "tent", {}),
    "aetta-sensitivity": (".*", "tent", {}),
    "recovery": (".*", r"tent|tent \+ episodic", {}),
    "dhauds": ("WHN-L1", "source|dhauds", {"protocol": "offline-oracle", "epochs": 2}),
    "dhauds-clean": (".*", ".*", {}),
}


@lru_cache
def jobs_of(suite: str, scale: str) -> tuple[Job, ...]:
    return tuple(load_suite(suite, scale=scale).jobs())


@pytest.fixture(scope="module")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Report]:
    """Return the report of a few jobs of a suite, which are run once."""

    @lru_cache
    def made(suite: str) -> Report:
        streams, recipes, overrides = SMALLEST[suite]
        folder = tmp_path_factory.mktemp(suite)
        jobs = load_suite(suite, overrides, scale="smoke").jobs()
        chosen = [
            job for job in jobs if re.fullmatch(streams, job.stream.label) and re.fullmatch(recipes, job.recipe.label)
        ]
        assert chosen, [(job.stream.label, job.recipe.label) for job in jobs]
        for job in chosen:
            run(job, folder)
        return make_report(folder)

    return made


def test_the_list_is_complete() -> None:
    for paper, (figures, tables) in COUNTS.items():
        numbers = [f"Figure {k + 1}" for k in range(figures)] + [f"Table {k + 1}" for k in range(tables)]
        assert [entry.name for entry in ENTRIES if entry.paper == paper] == numbers


def named(entries: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", entries, ids=lambda entry: f"{entry.paper} {entry.name}")


@named(ENTRIES)
def test_a_table_or_figure_has_jobs_or_is_explained(entry: Any) -> None:
    assert bool(entry.jobs) + bool(entry.call) + bool(entry.explained) == 1
    assert bool(entry.jobs) == bool(entry.shown) == bool(entry.needs)
    for wanted in entry.jobs:
        assert any(
            job.stream.label.startswith(wanted.stream)
            and wanted.recipe in ("", job.recipe.label)
            and wanted.model in ("", job.model.label)
            for job in jobs_of(wanted.suite, wanted.scale)
        ), wanted


@pytest.mark.slow
@named([entry for entry in ENTRIES if entry.shown])
def test_a_report_of_a_smoke_run_shows_its_numbers(entry: Any, report_of: Callable[[str], Report]) -> None:
    for suite in dict.fromkeys(jobs.suite for jobs in entry.jobs):
        report = report_of(suite)
        for wanted in entry.shown:
            name, _, heading = wanted.partition(": ")
            matching = [section for section in sections(report, name) if not heading or section.title == heading]
            assert matching, f"{suite} has no section {wanted}"
            assert any(numbers(section) for section in matching), f"{wanted} of {suite} holds no numbers"


def sections(report: Report, name: str) -> Iterator[Section]:
    """Yield what a function of the report makes, and all parts of it."""
    if hasattr(report_sections, name):
        made = [getattr(report_sections, name)(report)]
    else:
        made = [getattr(table_sections, name)(chapter) for chapter in report.chapters]
    for section in made:
        if section is not None:
            yield from parts_of(section)


def parts_of(section: Section) -> Iterator[Section]:
    yield section
    for part in section.parts:
        yield from parts_of(part)


def numbers(section: Section) -> list[float]:
    """Return the numbers in the cells of its tables and along the second axis of its charts."""
    cells = re.findall(r"<td[^>]*>[^<\d]*(-?\d+(?:\.\d+)?)", section.html)
    charts = re.findall(r"<script type='application/json'>(.*?)</script>", section.html, re.DOTALL)
    drawn = [y for chart in charts for trace in json.loads(chart)["data"] for y in trace.get("y") or []]
    return [float(value) for value in [*cells, *(y for y in drawn if isinstance(y, int | float))]]


def test_numbers_are_not_seen_where_there_are_none() -> None:
    assert numbers(Section("", "<table><tr><th>12</th><td>–</td></tr></table>")) == []
    assert numbers(Section("", '<script type=\'application/json\'>{"data":[{"y":[null]}]}</script>')) == []
    assert numbers(Section("", "<td class='x'>12.5 ± 1</td>")) == [12.5]


def walk() -> Calibration:
    matrix = np.tile(np.linspace(76, 5, 21)[:, None], 21) - np.linspace(0, 5, 21)
    return calibration_of({("fog", "snow"): matrix}, pairs=[["fog", "snow"]])


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "holdfast.streams:walk_strip": lambda draw, _: draw(walk(), np.zeros((32, 32, 3), np.uint8)).size,
    "holdfast.streams:write_walk_gif": lambda draw, folder: [
        draw(folder / "walk.gif", walk(), np.zeros((32, 32, 3), np.uint8)),
        (folder / "walk.gif").stat().st_size,
    ][1:],
    "holdfast.streams:unitta_setting": lambda setting, _: json.dumps(setting("(n,u)/(n,u)"), default=str),
    "holdfast.corruptions.audio.dhauds:criterion": lambda criterion, _: criterion("WHN-L1", "sc2").grid,
    "holdfast.corruptions.audio.dhauds:noises_of": lambda noises, _: [noise.name for noise in noises("END1", "L2")],
    "holdfast.audio:CLIPS": lambda clips, _: clips,
}


@named([entry for entry in ENTRIES if entry.call])
def test_a_function_draws_or_prints_the_rest(entry: Any, tmp_path: Path) -> None:
    module, _, name = entry.call.partition(":")
    assert re.search(r"\d", str(CALLS[entry.call](getattr(importlib.import_module(module), name), tmp_path)))


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
