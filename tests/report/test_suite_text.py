"""The YAML that a report shows runs the same jobs again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_files import WriteRun, batches

from holdfast.benchmark.suite import load_suite, parse_suite
from holdfast.report import make_report, write_report
from holdfast.report.suite_text import suite_text


@pytest.mark.parametrize(
    ("name", "scale"), [("demo-rescue", None), ("arena", "smoke"), ("dhauds", "smoke"), ("unitta-sensitivity", "smoke")]
)
def test_a_suite_that_was_written_again_has_the_same_jobs(name: str, scale: str | None) -> None:
    jobs = load_suite(name, scale=scale).jobs()
    again = parse_suite(suite_text(json.loads(json.dumps(job.to_json())) for job in jobs)).jobs()
    assert sorted(job.name for job in again) == sorted(job.name for job in jobs)


def test_a_part_of_a_suite_says_that_it_is_one() -> None:
    source, tent, *_ = load_suite("demo-rescue").jobs()
    text = suite_text([source.to_json(), {**tent.to_json(), "seed": 1}])
    assert text.startswith("# 2 of the 4 jobs of this suite are in the report")


def test_the_page_holds_the_suite_and_writes_it_beside_itself(tmp_path: Path, write_run: WriteRun) -> None:
    job = load_suite("demo-rescue").jobs()[0]
    folder = write_run("source", batches({"fog": [5, 6]}))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "asked": job.to_json()}))
    page = write_report(make_report(tmp_path / "runs"))
    text = page.with_name("report-suite-demo.yaml").read_text()
    assert parse_suite(text).jobs()[0].name == job.name
    assert "<summary>demo.yaml</summary>" in page.read_text()
