"""Estimates against the truth: errors over seeds, intervals, and published numbers only beside the same measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_files import Row, WriteRun, batches, estimate

from holdfast.report import error_table, make_report, make_tables, read_runs, write_report
from holdfast.report.estimate_plots import calibration, estimates_over_time, scatter
from holdfast.report.estimates import interval_table
from holdfast.report.tables import Table


def watched(estimates: list[float | None], corrects: list[int], **changes: Any) -> list[Row]:
    rows = batches({"fog": corrects}, **changes)
    for row, value in zip(rows, estimates, strict=True):
        more = {} if value is None else {"low": value - 0.1, "high": value + 0.1, "gain": -0.02}
        row["estimates"] = {"anchored": estimate(value, **more), "gde": estimate(1.0)}
    return rows


@pytest.fixture
def table(write_run: WriteRun, tmp_path: Path) -> Table:
    write_run("source", batches({"fog": [5, 5, 5]}))
    write_run("tent", watched([0.8, 0.5, None], [8, 9, 6]), seed=0)
    write_run("tent", watched([0.6, 0.6, 0.6], [8, 8, 8]), seed=1)
    return make_tables(read_runs(tmp_path / "runs"))[0]


def test_errors_are_in_points_over_the_seeds(table: Table) -> None:
    errors = error_table(table)
    assert errors is not None
    assert errors.columns == ["recipe", "anchored", "gde", "floor"]
    assert [line[:3] for line in errors.rows] == [["tent", "20.0 ± 0.0", "21.7 ± 2.4"]]


def test_intervals_tell_what_they_hold_and_what_is_not_known(table: Table) -> None:
    intervals = interval_table(table)
    assert intervals is not None
    # Unknown is one batch of three for the first seed; of the intervals one of two and none of three hold the truth.
    assert intervals.rows == [["tent", "anchored", "16.7", "25.0", "20.0", "-2.0 ± 0.0"]]


def test_course_and_scatter_leave_out_what_is_not_known(table: Table) -> None:
    course = estimates_over_time(table)
    by_name = {trace["name"]: trace for trace in course["data"]}
    assert by_name["anchored"]["y"] == [80.0, 50.0, None]
    assert by_name["anchored interval"]["x"] == [10, 20, 20, 10]
    assert by_name["anchored interval"]["y"] == [70.0, 40.0, 60.0, 90.0]  # there and back
    assert by_name["truth"]["y"] == [80.0, 90.0, 60.0]
    assert "updatemenus" not in course["layout"]  # a single recipe is watched
    dots = {trace["name"]: trace for trace in scatter(table)["data"]}
    assert dots["anchored"]["x"] == [80, 50, 60, 60, 60]
    assert dots["anchored"]["y"] == [80, 90, 80, 80, 80]
    (binned, _) = calibration(table)["data"]
    assert (binned["x"], binned["y"]) == ([50, 60, 80], [90, 80, 80])
    json.dumps(course, allow_nan=False)


def test_resets_and_a_scripted_collapse_are_marked(write_run: WriteRun, tmp_path: Path) -> None:
    rows = watched([0.8, 0.5, 0.4], [8, 9, 6])
    rows[2]["recovered"] = "too low"
    script = {"from_sample": 10, "samples": 10, "lr_factor": 100}
    write_run("tent", rows, protocol={"collapse": script})
    write_run("eta", rows, protocol={"collapse": script})
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    course = estimates_over_time(table)
    resets = next(trace for trace in course["data"] if trace["name"] == "resets")
    assert (resets["x"], resets["text"]) == ([30], ["too low"])
    assert [(shape["x0"], shape["x1"]) for shape in course["layout"]["shapes"]] == [(10, 20)]
    tent, eta = course["layout"]["updatemenus"][0]["buttons"]
    assert (tent["label"], sum(tent["args"][0]["visible"])) == ("tent", len(course["data"]) // 2)
    assert [not shown for shown in tent["args"][0]["visible"]] == eta["args"][0]["visible"]


@pytest.mark.parametrize(("parameters", "cell"), [(11_173_962, "20.0 (4.0 ± 0.03)"), (77_754, "20.0")])
def test_published_errors_stand_beside_the_same_network_and_length_only(
    write_run: WriteRun, tmp_path: Path, parameters: int, cell: str
) -> None:
    rows = batches({"fog": [80_000]}, size=160_000, estimates={"aetta": estimate(0.7)})
    folder = write_run("tent", rows, stream="cifar10-c")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["suite"], manifest["model"]["parameters"] = "aetta-fully", parameters
    manifest["published"] = {"deviations": [], "seeds": [manifest["seed"]]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    errors = error_table(make_tables(read_runs(tmp_path / "runs"))[0])
    assert errors is not None
    assert errors.rows[0][:2] == ["tent", cell]


@pytest.mark.usefixtures("table")
def test_the_page_has_errors_course_and_calibration(tmp_path: Path) -> None:
    page = write_report(make_report(tmp_path / "runs"))
    text = page.read_text()
    for words in ("Accuracy estimated without labels", "coverage (%)", "Estimate and truth over time", "class='pairs'"):
        assert words in text
    beside = page.with_name("report-continual-digits-resnet-estimates.csv").read_text()
    assert beside.startswith("recipe,anchored,gde,floor\ntent,20.0 ± 0.0,")
