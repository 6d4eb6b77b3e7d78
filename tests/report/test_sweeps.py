"""Sensitivity: only an option that varies while everything else is equal becomes a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest
from run_files import WriteRun, batches

from holdfast.report import make_report, make_tables, read_runs, write_report
from holdfast.report.sweeps import Sweep, make_sweeps, sweep_figure


def write(write_run: WriteRun, recipe: str, correct: int, *, batch_size: int = 10, **changes: Any) -> None:
    chain = {
        "stay": 0.9,
        "imbalance": 1.0,
        **{key: changes.pop(key) for key in ("stay", "imbalance") if key in changes},
    }
    protocol = {"stream": json.dumps(chain), "batch_size": batch_size}
    folder = write_run(recipe, batches({"fog": [correct]}), protocol=protocol, stream=json.dumps(chain), **changes)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["stream"]["spec"] = {"plan": {"kind": "markov", "class_chains": [chain]}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def sweeps_of(runs: Path) -> list[Sweep]:
    return make_sweeps(make_tables(read_runs(runs)))


def test_an_option_of_the_stream_becomes_a_line_for_each_recipe(write_run: WriteRun, tmp_path: Path) -> None:
    for stay, correct in ((0.99, 3), (0.5, 1), (0.9, 2)):
        write(write_run, "source", 5, stay=stay)
        write(write_run, "unitta", correct, stay=stay)
    write(write_run, "unitta", 9, imbalance=5.0)  # two values of it make no course
    (sweep,) = sweeps_of(tmp_path / "runs")
    assert (sweep.option, sweep.values) == ("class chain: stay", [0.5, 0.9, 0.99])
    figure = sweep_figure(sweep)
    plotly.graph_objects.Figure(figure)
    assert {line["name"]: line["y"] for line in figure["data"]} == {"source": [50, 50, 50], "unitta": [90, 80, 70]}
    assert "Error against class chain: stay" in write_report(make_report(tmp_path / "runs")).read_text()


def test_batch_sizes_and_options_of_recipes_are_found_too(write_run: WriteRun, tmp_path: Path) -> None:
    for size in (1, 16, 64):
        write(write_run, "bdn", 5, batch_size=size)
    for index, layer in enumerate(["stem", "first", "last"]):
        write(write_run, "unitta", index, options={"prediction_layer": layer, "momentum": 0.1})
    sweeps = {sweep.option: sweep for sweep in sweeps_of(tmp_path / "runs")}
    assert sweeps["batch size"].values == [1, 16, 64]
    assert sweeps["prediction layer"].values == ["stem", "first", "last"]  # as they came
    assert list(sweeps["prediction layer"].lines) == ["unitta"]
    assert len(sweeps) == 2


@pytest.mark.parametrize("stays", [("iid", "continual", 0.85), (0.5, 0.9)])
def test_kinds_of_streams_and_two_values_are_no_course(write_run: WriteRun, tmp_path: Path, stays: Any) -> None:
    for stay in stays:
        write(write_run, "unitta", 5, stay=stay)
    assert sweeps_of(tmp_path / "runs") == []
