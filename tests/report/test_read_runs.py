"""Reading runs: rows as columns, older layouts, truncated and damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from run_files import WriteRun, batches, estimate, row

from holdfast.report import DamagedRunError, read_run, read_runs


def test_rows_become_columns(write_run: WriteRun) -> None:
    rows = [
        row(
            0,
            {"fog": (3, 4), "snow": (1, 2)},
            loss=0.5,
            estimates={"aetta": estimate(0.7)},
            recovered="reset",
        ),
        row(6, {"snow": (2, 2)}, estimates={"aetta": estimate(None)}, skipped="no reliable sample", forwards=2.0),
    ]
    columns = read_run(write_run("tent", rows)).rows
    assert columns.position.tolist() == [0, 6]
    assert columns.ends.tolist() == [6, 8]
    assert columns.correct.tolist() == [4, 2]
    assert columns.recovered == ["reset", None]
    assert columns.skipped == [None, "no reliable sample"]
    np.testing.assert_array_equal(columns.loss, [0.5, np.nan])
    np.testing.assert_array_equal(columns.estimates["aetta"].value, [0.7, np.nan])
    assert list(columns.domains) == ["fog", "snow"]


def test_an_estimate_is_read_with_all_its_fields(write_run: WriteRun) -> None:
    sure = {"value": 0.7, "low": 0.6, "high": 0.8, "unknown": None, "gain": 0.1}
    lost = {"value": None, "low": None, "high": None, "unknown": "signals disagree", "gain": None}
    rows = [
        row(4 * index, {"fog": (3, 4)}, estimates={"sure": estimate}) for index, estimate in enumerate((sure, lost))
    ]
    estimate = read_run(write_run("tent", rows)).rows.estimates["sure"]
    for name in ("value", "low", "high", "gain"):
        np.testing.assert_array_equal(getattr(estimate, name), [sure[name], np.nan], name)
    assert estimate.unknown == [None, "signals disagree"]


def test_confidence_and_entropy_are_columns(write_run: WriteRun) -> None:
    rows = [row(0, {"fog": (3, 4)}, confidence=0.9, entropy=0.3), row(4, {"fog": (1, 4)}, confidence=None)]
    columns = read_run(write_run("tent", rows)).rows
    np.testing.assert_array_equal(columns.confidence, [0.9, np.nan])
    np.testing.assert_array_equal(columns.entropy, [0.3, 0.5])
    assert columns.accuracy.tolist() == [0.75, 0.25]


def test_torn_last_line_is_ignored(write_run: WriteRun) -> None:
    folder = write_run("tent", batches({"fog": [5, 6]}), finished=False, length=100)
    whole = read_run(folder)
    with (folder / "rows.jsonl").open("a") as file:
        file.write('{"position": 20, "size": 10, "domains": {"fo')
    torn = read_run(folder)
    assert len(torn.rows) == len(whole.rows) == 2
    assert torn.samples == 20
    assert not torn.finished


def test_a_run_without_a_row_is_unfinished(write_run: WriteRun) -> None:
    folder = write_run("tent", batches({"fog": [5]}), finished=False)
    (folder / "rows.jsonl").unlink()
    run = read_run(folder)
    assert (run.samples, run.finished) == (0, False)


def test_summary_beside_missing_rows_is_not_finished(write_run: WriteRun) -> None:
    folder = write_run("tent", batches({"fog": [5, 6]}), length=30)
    assert not read_run(folder).finished
    # The summary knows better than the plan: a run may be asked for more samples than its stream has.
    (folder / "summary.json").write_text('{"samples": 20}')
    assert read_run(folder).finished
    (folder / "summary.json").write_text('{"samp')
    with pytest.raises(DamagedRunError, match=r"summary\.json is not a summary; delete it"):
        read_run(folder)


def test_an_endless_stream_is_as_long_as_its_run(write_run: WriteRun) -> None:
    folder = write_run("tent", batches({"fog": [5, 6]}))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["stream"]["length"] = None
    (folder / "manifest.json").write_text(json.dumps(manifest))
    run = read_run(folder)
    assert (run.finished, run.reached) == (True, "20 samples")


def test_damaged_line_names_file_and_line(write_run: WriteRun) -> None:
    folder = write_run("tent", batches({"fog": [5, 6, 7]}))
    lines = (folder / "rows.jsonl").read_text().splitlines()
    lines[1] = lines[1][:20]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    with pytest.raises(DamagedRunError, match=r"line 2 of .*rows\.jsonl is not JSON; delete its folder"):
        read_run(folder)


def test_repeated_samples_are_refused(write_run: WriteRun) -> None:
    rows = batches({"fog": [5, 6]})
    with pytest.raises(DamagedRunError, match=r"line 3 of .*repeats samples"):
        read_run(write_run("tent", [*rows, rows[1]]))


def test_row_without_a_field_is_refused(write_run: WriteRun) -> None:
    rows = batches({"fog": [5]})
    del rows[0]["forwards"]
    with pytest.raises(DamagedRunError, match="forwards"):
        read_run(write_run("tent", rows))


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"schema": 2}, "schema"), ({"recipe": {}}, "recipe.name"), ({"protocol": None}, "protocol")],
)
def test_damaged_manifest_names_the_field(write_run: WriteRun, change: dict[str, object], problem: str) -> None:
    path = write_run("tent", batches({"fog": [5]})) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedRunError, match=rf"manifest\.json .*\({problem}: .*run that job again"):
        read_run(path.parent)


def test_half_a_manifest_names_the_file(write_run: WriteRun) -> None:
    path = write_run("tent", batches({"fog": [5]})) / "manifest.json"
    path.write_text(path.read_text()[:50])
    with pytest.raises(DamagedRunError, match=r"manifest\.json is not a manifest"):
        read_run(path.parent)


def test_runs_come_in_the_order_of_their_paths(write_run: WriteRun, tmp_path: Path) -> None:
    for name in ("b/two", "a", "b/one"):
        write_run("tent", batches({"fog": [5]}), folder=tmp_path / "all" / name)
    (tmp_path / "all/a/state").mkdir()
    (tmp_path / "all/a/state/manifest.json").write_text("inside a run: none of our business")
    assert [run.folder.relative_to(tmp_path / "all").as_posix() for run in read_runs(tmp_path / "all")] == [
        "a",
        "b/one",
        "b/two",
    ]


def test_folder_without_runs_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no runs in .*run a suite first"):
        read_runs(tmp_path)


def test_the_report_does_without_torch() -> None:
    code = "import sys, holdfast.report; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_runs_that_name_no_protocol_are_refused(write_run: WriteRun) -> None:
    folder = write_run("tent", batches({"fog": [5]}))
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["protocol"]["protocol"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedRunError, match=r"not a manifest of this version \(protocol: .*it names no protocol"):
        read_run(folder)
