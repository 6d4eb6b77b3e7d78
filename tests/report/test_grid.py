"""All streams of a suite in one table: averages over groups, and published numbers only where they may stand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from run_files import WriteRun, batches

from holdfast.report import make_tables, read_runs, write_report
from holdfast.report.grid import grid_to_csv, make_grids


def as_paper(folder: Path, suite: str, *, parameters: int = 25_557_032) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["suite"] = suite
    manifest["model"]["parameters"] = parameters
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Path:
    for place, stream in enumerate(["easy-1000", "easy-2000", "hard-1000"]):
        write_run("source", batches({"fog": [4 + place, 4]}), stream=stream, protocol={"stream": stream})
        if place < 2:
            write_run("tent", batches({"fog": [8, 8 - place]}), stream=stream, protocol={"stream": stream})
    return tmp_path / "runs"


def test_columns_are_streams_groups_and_their_average(runs: Path) -> None:
    (grid,) = make_grids(make_tables(read_runs(runs), "accuracy"))
    assert [column.name for column in grid.columns] == ["easy-1000", "easy-2000", "easy", "hard-1000", "average"]
    assert grid.scores["source"] == pytest.approx(
        {"easy-1000": 40, "easy-2000": 45, "easy": 42.5, "hard-1000": 50, "average": 45}
    )
    assert grid.scores["tent"]["easy"] == pytest.approx(77.5)
    assert math.isnan(grid.scores["tent"]["average"])  # an average over fewer streams would not compare
    assert grid_to_csv(grid).splitlines()[2] == "tent,80,75,77.5,,"


def test_published_numbers_stand_beside_the_same_network_and_length_only(write_run: WriteRun, tmp_path: Path) -> None:
    def grids(size: int, parameters: int) -> list[str]:
        folder = write_run(
            "rdumb",
            batches({"fog": [size // 2]}, size=size),
            stream="cin-c",
            folder=tmp_path / f"{size}-{parameters}" / "a",
        )
        as_paper(folder, "cin-c", parameters=parameters)
        found = make_grids(make_tables(read_runs(folder.parent), "error"))
        return [grid.cell("rdumb", column) for grid in found for column in grid.columns]

    assert grids(750_000, 25_557_032) == ["50.0 (53.5)"]
    assert grids(750_000, 11_689_512) == []
    assert grids(10_000, 25_557_032) == []


def test_the_page_shows_the_grid_first(runs: Path) -> None:
    page = write_report(runs)
    text = page.read_text()
    assert 0 < text.index("all streams") < text.index('id="table-0"')
    assert page.with_name("report-all-demo-digits-resnet.csv").is_file()
