"""Figures and tables of the papers, from rows with known accuracies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_files import Row, WriteRun, batches, estimate

from holdfast.report import make_tables, read_runs
from holdfast.report.estimate_plots import against_confidence
from holdfast.report.estimates import option_table
from holdfast.report.runs import RunRecord
from holdfast.report.speed import normalised_over_time, speed_table
from holdfast.report.tables import Table
from holdfast.report.walks import walk_table


def changed(folder: Path, key: str, **content: Any) -> None:
    """Add content to one part of a manifest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[key] = {**manifest.get(key, {}), **content}
    path.write_text(json.dumps(manifest))


def tables(folder: Path) -> list[Table]:
    return make_tables(read_runs(folder / "runs"))


def test_speed_is_counted_from_the_start_of_every_domain(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("eta", batches({"fog": [2, 4, 8], "snow": [4, 4, 4]}), stream="reset_each_shift")
    (table,) = tables(tmp_path)
    steps = speed_table(table)
    assert steps is not None
    # Moving means are 20, 30 and 46.7 %, and 40 % three times.
    assert steps.rows == [["eta", "2.0", "3", "43.3", "43.3"]]
    figure = normalised_over_time(table)
    assert figure is not None
    (curve,) = figure["data"]
    assert curve["x"] == [10, 20, 30]
    assert curve["y"] == pytest.approx([100 * (3 / 7 + 1) / 2, 100 * (4.5 / 7 + 1) / 2, 100.0], abs=1e-3)


def test_streams_that_do_not_start_anew_have_no_speed(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("eta", batches({"fog": [2, 4, 8]}))
    (table,) = tables(tmp_path)
    assert speed_table(table) is None
    assert normalised_over_time(table) is None


def estimated(corrects: list[int], **values: list[float]) -> list[Row]:
    rows = batches({"fog": corrects})
    for index, row in enumerate(rows):
        row["estimates"] = {name.replace("_", " "): estimate(column[index]) for name, column in values.items()}
        row["confidence"] = 0.5 + 0.1 * index
    return rows


def test_correct_and_consistent_predictions_stand_over_confidence(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("tent", estimated([8, 5, 2], pdd=[0.8, 0.85, 0.9], aetta=[0.8, 0.6, 0.3]))
    (table,) = tables(tmp_path)
    figure = against_confidence(table)
    assert figure is not None
    by_name = {trace["name"]: (trace["x"], trace["y"]) for trace in figure["data"]}
    assert by_name == {
        "correct": ([50.0, 60.0, 70.0], [80.0, 50.0, 20.0]),
        "consistent (pdd)": ([50.0, 60.0, 70.0], [80.0, 85.0, 90.0]),
        "weighted (aetta)": ([50.0, 60.0, 70.0], [80.0, 60.0, 30.0]),
    }


def test_without_pdd_there_is_no_such_figure(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("tent", estimated([8, 5], aetta=[0.8, 0.6]))
    (table,) = tables(tmp_path)
    assert against_confidence(table) is None


def test_options_of_estimators_stand_in_the_order_of_their_values(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run("tent", estimated([8, 8], aetta=[0.7, 0.7], five=[0.5, 0.5], flat=[0.8, 0.8], both=[0.1, 0.1]))
    usual = {"masks": 10, "skew_power": 3.0, "points": "stages"}
    changed(
        folder,
        "recipe",
        estimators={
            "aetta": usual,
            "five": {"name": "aetta", **usual, "masks": 5},
            "flat": {"name": "aetta", **usual, "skew_power": 0.0},
            "both": {
                "name": "aetta",
                **usual,
                "masks": 1,
                "skew_power": 0.0,
            },  # two options at once: no line of its own
        },
    )
    (table,) = tables(tmp_path)
    options = option_table(table)
    assert options is not None
    assert options.rows == [
        ["aetta", "masks", "5", "30.0", "30.0"],
        ["aetta", "masks", "10", "10.0", "10.0"],
        ["aetta", "skew_power", "0", "0.0", "0.0"],
        ["aetta", "skew_power", "3", "10.0", "10.0"],
    ]


def walked(write_run: WriteRun, lengths: list[int], *, imported: bool, seed: int) -> None:
    folder = write_run("source", batches({"fog": [5]}), stream="ccc", seed=seed)
    transitions = [{"cells": [[0, step] for step in range(length)]} for length in lengths]
    plan = {"kind": "walk", "difficulty": "easy", "target_percent": 40.0, "transitions": transitions}
    changed(folder, "stream", spec={"plan": plan})
    changed(folder, "material", calibration={"imported": imported, "images": None, "points": 441})


def runs(folder: Path) -> list[RunRecord]:
    return read_runs(folder / "runs")


def test_lengths_of_transitions_are_counted_once_for_each_walk(write_run: WriteRun, tmp_path: Path) -> None:
    walked(write_run, [11, 20, 29], imported=False, seed=0)
    walked(write_run, [11, 20, 29], imported=False, seed=1)  # the same walk
    walked(write_run, [40], imported=False, seed=2)
    table = walk_table(runs(tmp_path))
    assert table is not None
    assert table.rows == [["easy", "4", "11", "40", "25.0", "24.5", "–"]]


def test_published_lengths_stand_beside_imported_matrices_only(write_run: WriteRun, tmp_path: Path) -> None:
    walked(write_run, [12, 30], imported=True, seed=0)
    table = walk_table(runs(tmp_path))
    assert table is not None
    assert table.rows[0][-1] == "11 / 36 / 22.8 / 23"
