"""Figures: valid Plotly, means over the seeds, marks and gaps."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import plotly.graph_objects
import pytest
from run_files import WriteRun, batches, row

from holdfast.report import Table, against_cost, make_report, make_tables, over_time, read_run, read_runs, write_report
from holdfast.report.plots import (
    confidence_over_time,
    domain_starts,
    entropy_over_time,
    gauge_over_time,
    severities,
    window_samples,
)


@pytest.fixture
def table(write_run: WriteRun, tmp_path: Path) -> Table:
    reset = batches({"fog": [9, 9], "<i>snow": [2, 8]}, backwards=1.0)
    reset[2]["recovered"] = "loss <collapsed>"
    write_run("sar", reset)
    for seed, correct in ((0, 4), (1, 6)):
        write_run("source", batches({"fog": [correct, correct], "<i>snow": [correct, correct]}), seed=seed)
    (made,) = make_tables(read_runs(tmp_path / "runs"))
    return made


def test_figures_are_valid_plotly(table: Table) -> None:
    for figure in (over_time(table), against_cost(table), confidence_over_time(table), entropy_over_time(table)):
        plotly.graph_objects.Figure(figure)  # raises for anything that plotly does not know


def test_confidence_is_a_moving_mean_over_the_seeds(write_run: WriteRun, tmp_path: Path) -> None:
    for seed, confidences in ((0, (0.5, 0.7)), (1, (0.9, 0.9))):
        rows = [row(10 * index, {"fog": (5, 10)}, confidence=value) for index, value in enumerate(confidences)]
        write_run("tent", rows, seed=seed)
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    figure = confidence_over_time(table)
    assert figure is not None
    (curve,) = figure["data"]
    assert (curve["x"][0], curve["y"][0]) == (10, 70.0)
    assert (curve["x"][-1], curve["y"][-1]) == (20, 80.0)


def test_runs_without_a_known_confidence_have_no_chart_of_it(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("tent", [row(0, {"fog": (5, 10)}, confidence=None, entropy=None)])
    assert confidence_over_time(make_tables(read_runs(tmp_path / "runs"))[0]) is None
    assert "Confidence and entropy" not in write_report(make_report(tmp_path / "runs")).read_text()


def test_curves_are_means_over_the_seeds(table: Table) -> None:
    source, sar, _ = over_time(table)["data"]
    assert (source["name"], sar["name"]) == ("source", "sar")
    assert window_samples(table) == 10
    assert set(source["y"]) == {50.0}
    assert sar["x"][-1] == 40
    assert (sar["y"][0], sar["y"][-1]) == (10.0, 20.0)


def test_domains_and_resets_are_marked(table: Table) -> None:
    figure = over_time(table)
    assert [mark["text"] for mark in figure["layout"]["annotations"]] == ["fog", "&lt;i&gt;snow"]
    assert [shape["x0"] for shape in figure["layout"]["shapes"]] == [20]
    resets = figure["data"][-1]
    assert (resets["x"], resets["text"]) == ([30], ["sar: loss &lt;collapsed&gt;"])
    assert resets["legendgroup"] == figure["data"][1]["legendgroup"]


def test_mixed_domains_have_no_starts(write_run: WriteRun) -> None:
    mixed = [row(0, {"fog": (1, 3), "snow": (1, 3), "frost": (2, 4)})]
    assert domain_starts(read_run(write_run("tent", mixed)).rows) == []


def test_a_batch_across_two_domains_belongs_to_the_larger_part(write_run: WriteRun) -> None:
    rows = [row(0, {"fog": (5, 10)}), row(10, {"fog": (2, 3), "snow": (5, 7)}), row(20, {"fog": (9, 10)})]
    assert domain_starts(read_run(write_run("tent", rows)).rows) == [(0, "fog"), (10, "snow"), (20, "fog")]


def test_seeds_in_another_order_leave_domains_unmarked(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [5], "snow": [5]}), seed=0)
    write_run("source", batches({"snow": [5], "fog": [5]}), seed=1)
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert "annotations" not in over_time(table)["layout"]


def test_score_against_cost(table: Table) -> None:
    figure = against_cost(table)
    source, sar = figure["data"]
    assert (source["x"], source["y"]) == ([1.0], [50.0])
    assert (sar["x"], sar["y"]) == ([2.0], [30.0])
    assert source["error_y"]["visible"]
    assert not sar["error_y"]["visible"]
    assert figure["layout"]["shapes"][0]["y0"] == 50.0


def test_labels_of_equal_dots_stand_apart(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [1]}))
    write_run("dear", batches({"fog": [9]}, forwards=9.0))
    for label in ("tent", "eta"):
        write_run(label, batches({"fog": [9]}, backwards=1.0))
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    positions = [dot["textposition"] for dot in against_cost(table)["data"]]
    assert positions == ["middle right", "middle left", "middle right", "bottom center"]


def test_a_label_without_room_is_left_out(write_run: WriteRun, tmp_path: Path) -> None:
    for label in ("tent", "eta", "sar", "rotta", "slr"):
        write_run(label, batches({"fog": [9]}))
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert [dot["mode"] for dot in against_cost(table)["data"]] == 3 * ["markers+text"] + 2 * ["markers"]


def test_the_calibrated_accuracy_and_a_collapse_are_drawn(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [5] * 40}, expected=0.45))
    write_run("tent", batches({"fog": [9] * 20 + [1] * 20}, expected=0.45))
    (table,) = make_tables(read_runs(tmp_path / "runs"), "accuracy")
    traces = {trace["name"]: trace for trace in over_time(table)["data"]}
    assert set(traces["calibrated"]["y"]) == {45.0}
    (onset,) = traces["tent collapsed"]["x"]
    assert 200 < onset <= 220


def test_a_recipe_above_the_source_has_no_cross(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [5] * 40}))
    write_run("tent", batches({"fog": [1] * 20 + [9] * 20}))
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert [trace["name"] for trace in over_time(table)["data"]] == ["source", "tent"]


def test_the_severities_of_a_walk_are_drawn(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run("source", batches({"fog+<i>snow": [5] * 5}))
    (without,) = make_tables(read_runs(tmp_path / "runs"))
    assert severities(without) is None
    manifest = json.loads((folder / "manifest.json").read_text())
    transition = {"domain": "fog+<i>snow", "cells": [[2, 0], [1, 0], [1, 1], [0, 1]]}
    manifest["stream"]["spec"] = {"plan": {"kind": "walk", "images_per_step": 10, "transitions": [transition]}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    figure = severities(table)
    assert figure is not None
    plotly.graph_objects.Figure(figure)
    assert figure["data"][0]["y"] == [0.5, 0.25, 0.25, 0, 0.5]  # 50 samples: the fifth step is the first again
    assert figure["data"][1]["y"] == [0, 0, 0.25, 0.25, 0]
    assert figure["data"][1]["text"][0] == "&lt;i&gt;snow"


def test_domains_found_stand_beside_those_of_the_stream(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [5, 5], "snow": [5], "frost": [5]}))  # as rows were before they had gauges
    rows = batches({"fog": [5, 5], "snow": [5], "frost": [5]})
    write_run(
        "bdn", [{**one, "gauges": {"domains": detected}} for one, detected in zip(rows, (1, 1, 2, 2), strict=True)]
    )
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    true, detected = gauge_over_time(table, "domains")["data"]
    assert (true["name"], detected["name"]) == ("in the stream", "bdn")
    at = dict(zip(detected["x"], zip(true["y"], detected["y"], strict=True), strict=True))
    assert at == {0: (1, 1), 10: (1, 1), 20: (2, 2), 30: (3, 2), 40: (3, 2)}
    plotly.graph_objects.Figure(gauge_over_time(table, "domains"))
    assert "Domains over time" in write_report(make_report(tmp_path / "runs")).read_text()


def test_a_long_run_is_drawn_with_few_points_and_loses_neither_resets_nor_its_collapse(
    write_run: WriteRun, tmp_path: Path
) -> None:
    rows = batches({"fog": [9] * 3000 + [1] * 3000})
    for number in [*range(0, 5000, 2), 5900]:
        rows[number]["recovered"] = "due"
    write_run("tent", rows)
    write_run("source", batches({"fog": [5] * 6000}))
    (table,) = make_tables(read_runs(tmp_path / "runs"), "accuracy")
    traces = {trace["name"]: trace for trace in over_time(table)["data"]}
    assert len(traces["tent"]["x"]) <= 400
    assert traces["tent collapsed"]["x"] == [pytest.approx(30_000, abs=600)]  # a hundredth of the run
    marks = traces["tent resets"]
    assert len(marks["x"]) <= 2000
    assert marks["x"][-1] == 59_010
    assert max(later - earlier for earlier, later in pairwise(marks["x"][:-1])) <= 60_000 / 1000
    counts = [int(match[1]) for text in marks["text"] if (match := re.search(r"and (\d+) more", text))]
    assert len(marks["x"]) + sum(counts) == 2501
