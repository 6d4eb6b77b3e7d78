"""All streams of a suite in one table: averages over groups, and published numbers only beside the same measurement."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from run_files import WriteRun, batches

from holdfast.report import make_report, make_tables, read_runs, to_csv, to_latex, write_report
from holdfast.report.grid import make_grids, stream_columns


def as_paper(folder: Path, suite: str, *, parameters: int = 25_557_032, **changes: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {"suite": suite, "published": {"deviations": [], "seeds": [manifest["seed"]]}, **changes}
    manifest["model"]["parameters"] = parameters
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Path:
    for index, stream in enumerate(["easy-1000", "easy-2000", "hard-1000"]):
        write_run("source", batches({"fog": [4 + index, 4]}), stream=stream, protocol={"stream": stream})
        if index < 2:
            write_run("tent", batches({"fog": [8, 8 - index]}), stream=stream, protocol={"stream": stream})
    return tmp_path / "runs"


def test_columns_are_streams_groups_and_their_average(runs: Path) -> None:
    (grid,) = make_grids(make_tables(read_runs(runs), "accuracy"))
    assert [column.name for column in grid.columns] == ["easy-1000", "easy-2000", "easy", "hard-1000", "average"]
    assert grid.scores["source"] == pytest.approx(
        {"easy-1000": 40, "easy-2000": 45, "easy": 42.5, "hard-1000": 50, "average": 45}
    )
    assert grid.scores["tent"]["easy"] == pytest.approx(77.5)
    assert math.isnan(grid.scores["tent"]["average"])  # an average over fewer streams would not compare
    titles, _, tent = to_csv(grid).splitlines()
    assert tent.startswith("tent,80,75,77.5,,,0,")
    assert "± easy-1000 accuracy (%)" in titles


def test_published_numbers_stand_beside_the_same_network_and_length_only(write_run: WriteRun, tmp_path: Path) -> None:
    def grids(size: int, parameters: int) -> list[str]:
        folder = write_run(
            "rdumb",
            batches({"fog": [size // 2]}, size=size),
            stream="cin-c",
            folder=tmp_path / f"{size}-{parameters}" / "a",
        )
        as_paper(folder, "cin-c", parameters=parameters)
        of_folder = make_grids(make_tables(read_runs(folder.parent), "error"))
        return [grid.cell("rdumb", column).text for grid in of_folder for column in grid.columns]

    assert grids(750_000, 25_557_032) == ["50.0 (53.5)"]
    assert grids(750_000, 11_689_512) == []
    assert grids(10_000, 25_557_032) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"published": None}, "the run does not say how it differs"),
        ({"published": {"deviations": ["batch_size is 32 instead of 64"], "seeds": [0]}}, "batch_size is 32"),
        ({"published": {"deviations": [], "seeds": [0, 1]}}, "seeds 0 instead of 0, 1"),
        ({"stream_size": 10_000}, "10,000 samples instead of 750,000"),
    ],
)
def test_a_number_that_is_not_shown_says_why(
    write_run: WriteRun, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    size = changes.pop("stream_size", 750_000)
    for stream in ("cin-c", "cin-3dcc"):
        folder = write_run(
            "rdumb", batches({"fog": [size // 2]}, size=size), stream=stream, protocol={"stream": stream}
        )
        as_paper(folder, "cin-c", **(changes if stream == "cin-c" else {}))
    (grid,) = make_grids(make_tables(read_runs(tmp_path / "runs"), "error"))
    texts = {column.name: grid.cell("rdumb", column).text for column in grid.columns}
    assert texts["cin-c"] == "50.0"
    assert f"rdumb on cin-c: {reason}" in grid.note
    if size == 750_000:
        assert texts["cin-3dcc"] == "50.0 (54.8)"


def test_one_deviating_run_of_several_withholds_the_number(write_run: WriteRun, tmp_path: Path) -> None:
    rows = batches({"fog": [375_000]}, size=750_000)
    for stream, seed in itertools.product(("cin-c", "cin-3dcc"), (0, 1)):
        folder = write_run("rdumb", rows, stream=stream, seed=seed, protocol={"stream": stream})
        deviations = ["batch_size is 32 instead of 64"] if (stream, seed) == ("cin-c", 1) else []
        as_paper(folder, "cin-c", published={"deviations": deviations, "seeds": [0, 1]})
    (grid,) = make_grids(make_tables(read_runs(tmp_path / "runs"), "error"))
    assert set(grid.published) == {("rdumb", "cin-3dcc")}
    assert "rdumb on cin-c: batch_size is 32 instead of 64" in grid.note


def test_the_page_shows_the_grid_first(runs: Path) -> None:
    page = write_report(make_report(runs))
    text = page.read_text()
    assert 0 < text.index("all streams") < text.index('id="table-0"')
    assert page.with_name("report-all-demo-digits-resnet.csv").is_file()
    assert page.with_name("report-all-demo-digits-resnet.tex").is_file()


def test_columns_stand_below_their_groups_with_averages_last() -> None:
    labels = ["(i,1)/(1,1)", "(n,1)/(1,1)", "(n,1)/(i,u)"]
    columns = stream_columns(labels, {"main": labels[1:], "absent": ["(n,u)/(1,1)"]})
    assert [(column.group, column.head) for column in columns] == [
        ("", "(i,1)/(1,1)"),
        ("(n,1)", "(1,1)"),
        ("(n,1)", "(i,u)"),
        ("(n,1)", "mean"),
        ("average", "main"),
        ("average", "all 3"),
    ]


def test_groups_and_marks_are_in_the_page_and_in_latex(runs: Path) -> None:
    for manifest in runs.glob("*/manifest.json"):
        as_paper(manifest.parent, "ccc", averages={"slow": ["easy-2000", "hard-1000"]})
    (grid,) = make_grids(make_tables(read_runs(runs), "accuracy"))
    assert grid.groups == [("easy", 3), ("", 1), ("average", 2)]
    assert grid.scores["source"]["average (slow)"] == pytest.approx(47.5)
    worst, best = (grid.cell(recipe, grid.columns[0]) for recipe in ("source", "tent"))
    assert (worst.best, best.best, worst.worse, best.worse) == (False, True, False, False)
    lines = to_latex(grid).splitlines()
    assert r" & \multicolumn{3}{c}{easy} & \multicolumn{1}{c}{} & \multicolumn{2}{c}{average} \\" in lines
    assert r"\cmidrule(lr){2-4}\cmidrule(lr){6-7}" in lines
    assert r"recipe & 1000 & 2000 & mean & hard-1000 & slow & all 3 \\" in lines
    (tent,) = (line for line in lines if line.startswith("tent"))
    assert tent.startswith(r"tent & \textbf{80.0 $\pm$ 0.0} & \textbf{75.0 $\pm$ ")
    assert tent.endswith(r" & -- & -- & -- \\")
    assert '<th scope="colgroup" colspan="3">easy</th>' in write_report(make_report(runs)).read_text()


@pytest.mark.parametrize(
    ("suite", "per_cell", "samples", "shown"),
    [
        ("unitta", 1000, None, True),
        ("unitta-main", 1000, None, True),
        ("unitta", None, None, False),  # stationary
        ("unitta", 100, None, False),
        ("unitta", 1000, 10, False),  # cut short
    ],
)
def test_published_numbers_of_unitta_want_its_own_rules(
    write_run: WriteRun, tmp_path: Path, suite: str, per_cell: int | None, samples: int | None, shown: bool
) -> None:
    for setting in ("(i,1)/(1,1)", "(i,1)/(i,u)"):
        protocol = {"stream": setting, "samples": samples}
        folder = write_run("source", batches({"fog": [5]}), stream=setting, protocol=protocol)
        stream = json.loads((folder / "manifest.json").read_text())["stream"]
        stream["spec"] = {"plan": {"kind": "markov", "samples_per_cell": per_cell}}
        as_paper(folder, suite, parameters=36_479_194, stream=stream)
    (grid,) = make_grids(make_tables(read_runs(tmp_path / "runs"), "error"))
    assert grid.cell("source", grid.columns[1]).text == ("50.0 (40.3)" if shown else "50.0")
    assert grid.published.get(("source", "average"), 0) == pytest.approx((43.46 + 40.30) / 2 if shown else 0)
    assert ("published average error (%)" in to_csv(grid)) == shown


@pytest.mark.parametrize(
    ("parameters", "recipe", "error"),
    [("36479194", "unitta", 23.95), ("6900132", "bdn", 40.19), ("25557032", "rotta", 76.07)],
)
def test_the_published_settings_average_to_what_the_paper_prints(parameters: str, recipe: str, error: float) -> None:
    text = (resources.files("holdfast.report") / "published.csv").read_text()
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["suite"] == "unitta"]
    errors = [100 - float(row["value"]) for row in rows if (row["parameters"], row["recipe"]) == (parameters, recipe)]
    assert len(rows) == 3 * 17 * 24
    assert sum(errors) / 24 == pytest.approx(error, abs=0.006)
