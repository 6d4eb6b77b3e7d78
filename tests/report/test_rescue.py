"""The story of the demo: its numbers are those of the runs, and other reports have none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_files import WriteRun, batches

from holdfast.report import make_report, write_report
from holdfast.report.rescue import scenes, sentences, story_table

CORRECT = {
    "shuffled": {"source": [7, 7], "tent": [9, 10], "guarded tent": [9, 9], "blend": [9, 9]},
    "by class": {"source": [7, 7], "tent": [4, 2], "guarded tent": [7, 8], "blend": [8, 8]},
}


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Path:
    """Write the eight runs of a demo on one data set; the guard raises an alarm after the second batch by class."""
    for index, (stream, recipes) in enumerate(CORRECT.items()):
        for label, correct in recipes.items():
            watched = {"anchored": {"value": 0.5, "low": None, "high": None, "unknown": None, "gain": None}}
            rows = batches({"noise": correct}, estimates=watched)
            if (stream, label) == ("by class", "guarded tent"):
                rows[1]["recovered"] = "the adapted network stayed worse than the source"
            folder = write_run(label, rows, stream=stream, protocol={"stream": str(index)})
            manifest = json.loads((folder / "manifest.json").read_text())
            (folder / "manifest.json").write_text(json.dumps({**manifest, "suite": "demo-rescue"}))
    return tmp_path / "runs"


def test_the_story_has_the_numbers_of_the_runs(runs: Path) -> None:
    report = make_report(runs)
    story = scenes(report.tables)
    assert [list(row) for row in story_table(story).rows] == [
        ["digits, shuffled", "70.0", "95.0", "50.0", "90.0", "90.0", "–"],
        ["digits, by class", "70.0", "30.0", "50.0", "75.0", "80.0", "20"],
    ]
    helps, fails, holds = sentences(story)
    assert helps.startswith("Adapting helps")
    assert "right on 95.0 % of the digits (source: 70.0 %)" in helps
    assert "right on 30.0 % of the digits (estimated without labels: 50.0 %)" in fails
    assert "right on 75.0 % of the digits there, with an alarm after 20 samples (digits)" in holds
    assert holds.endswith("on 80.0 % of the digits.")
    assert report.sections[0].title == "Collapse and rescue"
    page = write_report(report).read_text()
    assert page.index("Collapse and rescue") < page.index("digits_resnet")


def test_other_reports_have_no_story(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"noise": [5, 5]}))
    assert not scenes(make_report(tmp_path / "runs").tables)
