"""Streams that do not wait: exact counts, the latest state, costs by file, resumed runs and the report."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.benchmark import Job, SuiteError, bench, load_suite, parse_suite, run
from holdfast.benchmark.building import build
from holdfast.benchmark.clock import missed_batches, read_costs
from holdfast.machine.stopping import Stopped
from holdfast.records import NOT_IN_TIME
from holdfast.report import make_report

SUITE = """\
name: timed
protocol: online-timed
speeds: [1]
models: [digits_resnet]
batch_size: 16
streams:
  - {name: continual, data: digits, corruptions: [contrast, pixelate], samples_per_domain: 80}
recipes: [source, batch_norm, tent, sar]
"""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def job_of(recipe: str, **changes: Any) -> Job:
    jobs = parse_suite(SUITE, overrides={"recipes": [recipe], **changes}).jobs()
    assert len(jobs) == 1
    return jobs[0]


def adapted_to(folder: Path) -> list[int]:
    """Return the numbers of the batches that were adapted to."""
    return [number for number, row in enumerate(rows_of(folder)) if row["skipped"] != NOT_IN_TIME]


@pytest.mark.parametrize(
    ("recipe", "speed", "expected"),
    [
        ("source", 1.0, list(range(10))),
        ("source", 2.0, [0, 2, 4, 6, 8]),
        ("batch_norm", 1.0, list(range(10))),
        ("tent", 1.0, [0, 3, 6, 9]),  # one forward and one backward, which is worth two
        ("tent", 0.5, [0, 2, 4, 6, 8]),  # 3 · 0.5 = 1.5 batches
        ("tent", 1 / 3, list(range(10))),
    ],
)
def test_the_batches_that_pass_meanwhile_are_missed(
    recipe: str, speed: float, expected: list[int], tmp_path: Path
) -> None:
    assert adapted_to(run(job_of(recipe, speeds=[speed]), tmp_path)) == expected


def test_a_missed_batch_is_predicted_by_the_latest_state_and_changes_nothing(tmp_path: Path) -> None:
    job = job_of("tent", speeds=[0.5])
    rows = rows_of(run(job, tmp_path))
    built = build(job)
    for number, batch in enumerate(built.stream.starting_at(0, batch_size=16)):
        step = built.model.step(batch.inputs) if number % 2 == 0 else built.model.predict(batch.inputs)
        correct = int((step.logits.argmax(1).numpy() == batch.labels).sum())
        assert sum(hits for hits, _ in rows[number]["domains"].values()) == correct
        assert rows[number]["loss"] == step.loss
        assert rows[number]["backwards"] == (1.0 if number % 2 == 0 else 0.0)
    assert number == 9


def test_a_slow_stream_gives_the_rows_of_a_stream_that_waits(tmp_path: Path) -> None:
    timed = rows_of(run(job_of("sar", speeds=[0.01]), tmp_path))
    waiting = rows_of(run(job_of("sar", protocol="online"), tmp_path))
    assert [{**row, "step_seconds": 0} for row in timed] == [{**row, "step_seconds": 0} for row in waiting]


def test_an_episode_starts_in_time(tmp_path: Path) -> None:
    # Every sixth batch would be adapted to, and the second episode begins at batch 5.
    job = job_of("source", speeds=[6.0], **{"streams.0.name": "reset_each_shift"})
    assert adapted_to(run(job, tmp_path)) == [0, 5]


def test_costs_come_from_the_suite_a_file_or_runs(tmp_path: Path) -> None:
    costs = {"source": 1.0, "tent": 4.0}
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    for given in (costs, str(tmp_path / "costs.json")):
        jobs = parse_suite(SUITE, overrides={"recipes": ["source", "tent"], "costs": given}).jobs()
        assert [job.cost for job in jobs] == [1.0, 4.0]
    assert adapted_to(run(jobs[1], tmp_path / "runs")) == [0, 4, 8]
    assert Job.from_json(json.loads(json.dumps(jobs[1].to_json()))) == jobs[1]

    for recipe in ("source", "tent"):
        folder = run(job_of(recipe, protocol="online"), tmp_path / "measured")
        rows = [{**row, "step_seconds": 0.02 if recipe == "source" else 0.07} for row in rows_of(folder)]
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_costs(tmp_path / "measured") == {"source": 1.0, "tent": 3.5}


def test_costs_are_measured_by_the_source_at_the_same_batch_size(tmp_path: Path) -> None:
    for recipe, size, seconds in (("source", 8, 0.02), ("tent", 8, 0.07), ("tent", 64, 0.5)):
        folder = tmp_path / f"{recipe}-{size:02}"
        folder.mkdir()
        manifest: dict[str, Any] = {"seed": 0, "stream": {"label": "fog"}, "model": {"name": "net"}}
        manifest |= {"recipe": {"label": recipe}, "protocol": {"protocol": "online", "batch_size": size}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        (folder / "rows.jsonl").write_text(json.dumps({"step_seconds": seconds}))
    assert read_costs(tmp_path) == {"source": 1.0, "tent": 3.5}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"costs": {"source": 1.0}}, "line 3: costs has no entry for the recipe 'batch_norm'; add it"),
        ({"costs": "absent.json"}, "costs cannot be read from absent.json"),
        ({"speeds": [0]}, "greater than 0"),
        ({"speeds": []}, "at least 1 item"),
    ],
)
def test_costs_and_speeds_are_checked(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SuiteError, match=words.replace("line 3: ", "")):
        parse_suite(SUITE, overrides=changes)


def test_a_stopped_run_resumes_while_it_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows_of(run(job_of("tent"), tmp_path / "whole"))
    asked = iter([False] * 4 + [True])  # after five batches, in the middle of three
    monkeypatch.setattr("holdfast.benchmark.online.was_asked_to_stop", lambda: next(asked, False))
    with pytest.raises(Stopped):
        run(job_of("tent"), tmp_path / "cut")
    (cut,) = (tmp_path / "cut" / "timed").glob("tent-*")
    assert len(rows_of(cut)) == 5
    resumed = rows_of(run(job_of("tent"), tmp_path / "cut"))
    assert [{**row, "step_seconds": 0} for row in resumed] == [{**row, "step_seconds": 0} for row in whole]


@pytest.mark.slow
def test_recipes_and_speeds_share_their_batches_and_the_report_compares_them(tmp_path: Path) -> None:
    jobs = parse_suite(SUITE, overrides={"speeds": [1, 0.25, 4], "recipes": ["source", "tent"]}).jobs()
    assert len(jobs) == 6
    assert len({job.name for job in jobs}) == 6
    outcomes = bench(jobs, tmp_path)
    assert all(outcome.error is None for outcome in outcomes)
    alone = rows_of(run(jobs[3], tmp_path / "alone"))
    together = rows_of(tmp_path / "timed" / jobs[3].name)
    assert [{**row, "step_seconds": 0} for row in alone] == [{**row, "step_seconds": 0} for row in together]

    report = make_report(tmp_path, "accuracy")
    shown = next(section for section in report.sections if section.title == "Time")
    (part,) = shown.parts
    assert part.title == "continual · digits_resnet: against the speed of the stream"
    lines = next(file for file in part.files if file.name.endswith(".csv")).text.splitlines()
    assert lines[0].split(",")[1:4] == [f"accuracy at speed {speed}" for speed in ("0.25", "1", "4")]
    tent = dict(zip(lines[0].split(","), lines[2].split(","), strict=True))
    assert tent["recipe"] == "tent"
    # Of ten batches, one in 1, 3 and 12 is adapted to.
    assert [tent[f"adapted to at speed {speed} (%)"] for speed in ("0.25", "1", "4")] == ["100", "40", "10"]
    source = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert len({source[f"accuracy at speed {speed}"] for speed in ("0.25", "1", "4")}) == 1
    assert report.tables[0].protocol["speed"] == 1.0


def test_the_manifest_tells_speed_and_clock(tmp_path: Path) -> None:
    counted = json.loads((run(job_of("tent"), tmp_path) / "manifest.json").read_text())["protocol"]
    assert (counted["protocol"], counted["speed"], counted["cost"]) == ("online-timed", 1.0, "passes, as counted")
    plain = load_suite("demo").jobs()[0]
    assert "speed" not in plain.to_json()


def test_rounding_does_not_miss_a_batch() -> None:
    assert 100 * 0.07 > 7
    assert missed_batches(100, 0.07) == 6


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_same_rows(tmp_path: Path) -> None:
    job = job_of("tent", samples=None, **{"streams.0.samples_per_domain": 320})
    whole = rows_of(run(job, tmp_path / "whole"))
    program = (
        "import json, sys\nfrom pathlib import Path\nfrom holdfast.benchmark import Job, run\n"
        "job = Job.from_json(json.loads(sys.argv[1]))\nrun(job, Path(sys.argv[2]), checkpoint_seconds=0.0)\n"
    )
    killed = tmp_path / "killed"
    with subprocess.Popen([sys.executable, "-c", program, json.dumps(job.to_json()), str(killed)]) as process:
        state = killed / "timed" / job.name / "state.safetensors"
        while process.poll() is None and not state.exists():
            time.sleep(0.005)
        process.kill()
    assert state.exists()
    resumed = rows_of(run(job, killed))
    assert len(resumed) == len(whole) == 40
    assert [{**row, "step_seconds": 0} for row in resumed] == [{**row, "step_seconds": 0} for row in whole]
