"""Before → after: gains in every criterion, their extent and cost, and the gain from using labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_files import WriteRun, batches

from holdfast.report import make_report, make_tables, read_runs, to_csv, to_markdown, write_report
from holdfast.report.before_after import all_gains, gain_in_words, make_gains
from holdfast.report.grid import make_grids
from holdfast.report.plots import over_epochs

ORACLE = "offline-oracle (labels chose the epoch)"


def summarise(folder: Path, *, parameters: int = 77_754, label: str = "", **content: Any) -> None:
    (folder / "summary.json").write_text(json.dumps(content))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["model"]["parameters"] = parameters
    manifest["stream"]["name"] = "dhauds"
    if parameters != 77_754:
        manifest["published"] = {"deviations": [], "seeds": [0]}
    if label == "dhauds":
        manifest["recipe"]["label"] = label if parameters == 77_754 else f"{label} as published for AMAuT"
    (folder / "manifest.json").write_text(json.dumps(manifest))


def write(write_run: WriteRun, protocol: str = ORACLE, parameters: int = 77_754, samples: int = 20) -> None:
    for stream, corrects in {"us8-WHN-L1": ([4, 4], [7, 7]), "us8-PSH-L1": ([6, 6], [6, 5])}.items():
        domain = stream.removeprefix("us8-")
        for label, counts, scale in (("source", corrects[0], 1), ("dhauds", corrects[1], 4)):
            rows = batches(
                {domain: [count * samples // 20 for count in counts]}, samples // 2, step_seconds=0.1 * scale
            )
            shared = {"protocol": protocol, "epochs": 3, "stream": stream}
            folder = write_run(label, rows, stream=stream, protocol=shared)
            right = sum(counts) * samples // 20
            one_set = {
                "domains": [domain],
                "samples": samples,
                "correct": right,
                "scores": {"macro_f1": right / samples - 0.01, "silhouette": None if label == "source" else 0.1},
            }
            if protocol == ORACLE:
                one_set |= {"last_correct": right - samples // 20 * scale, "redrawn_accuracy": [0.2, 0.3, 0.7, 0.6]}
            summarise(
                folder,
                parameters=parameters,
                label=label,
                sets=[one_set],
                samples=samples,
                peak_mib={"50%": 80.0, "100%": 90},
            )


def test_gains_are_after_minus_before_for_every_criterion_and_score(write_run: WriteRun, tmp_path: Path) -> None:
    write(write_run)
    accuracy, f1 = make_gains(make_tables(read_runs(tmp_path / "runs")))  # the silhouette of the source is not known
    assert (accuracy.score, accuracy.recipe) == ("accuracy", "dhauds")
    assert [(row.criterion, row.before, row.after) for row in accuracy.rows] == [
        ("us8-WHN-L1", 0.4, 0.7),
        ("us8-PSH-L1", 0.6, 0.55),
    ]
    assert accuracy.extent == pytest.approx((-0.05, 0.3, 0.125))
    assert accuracy.improved == 1
    assert [row.before for row in f1.rows] == pytest.approx([0.39, 0.59])
    assert accuracy.milliseconds_per_clip == pytest.approx(2 * 2 * 400 / 40)
    assert accuracy.peak_mib == 90
    assert accuracy.oracle_gap == pytest.approx(100 * 4 / 20)
    assert gain_in_words(accuracy.rows[1]) == "0.6000 → 0.5500 (-0.0500)"
    assert to_csv(all_gains([accuracy])).splitlines()[1].endswith("dhauds,accuracy,us8-WHN-L1,0.4,0.7,0.3,,")


def test_published_numbers_stand_beside_the_same_network_score_and_number_of_clips(
    write_run: WriteRun, tmp_path: Path
) -> None:
    write(write_run, parameters=99_080_852, samples=2_460)
    accuracy, f1 = make_gains(make_tables(read_runs(tmp_path / "runs")))
    assert [row.published for row in f1.rows] == [(0.6045, 0.7220), (0.6035, 0.6353)]  # US8 was scored by macro F1
    assert all(row.published is None for row in accuracy.rows)
    page = write_report(make_report(tmp_path / "runs"), tmp_path / "page.html").read_text()
    assert page.count("Published: for the same network") == 1  # below the table that has some
    for manifest in (tmp_path / "runs").rglob("manifest.json"):
        content = json.loads(manifest.read_text())
        content["published"]["deviations"] = ["recipe.lr is 0.1 instead of not set"]
        manifest.write_text(json.dumps(content))
    _, f1 = make_gains(make_tables(read_runs(tmp_path / "runs")))
    assert all(row.published is None for row in f1.rows)


@pytest.mark.parametrize("other", ["none", "protocol", "label", "samples"])
def test_published_numbers_are_for_the_published_protocol_recipe_and_number_of_clips(
    other: str, write_run: WriteRun, tmp_path: Path
) -> None:
    protocol, samples = "offline-fixed" if other == "protocol" else ORACLE, 2_440 if other == "samples" else 2_460
    write(write_run, protocol, parameters=99_080_852, samples=samples)
    for path in (tmp_path / "runs").rglob("manifest.json") if other == "label" else ():
        path.write_text(path.read_text().replace("dhauds as published for AMAuT", "dhauds"))
    _, f1 = make_gains(make_tables(read_runs(tmp_path / "runs")))
    assert [row.published is None for row in f1.rows] == [other != "none"] * 2


@pytest.mark.parametrize("protocol", ["offline-fixed", ORACLE, "online"])
def test_every_table_names_its_protocol(protocol: str, write_run: WriteRun, tmp_path: Path) -> None:
    write(write_run, protocol)
    tables = make_tables(read_runs(tmp_path / "runs"))
    for table in tables:
        assert f"Protocol {protocol.split()[0]}: " in to_markdown(table)
        assert ("no label was used" in to_markdown(table)) == (protocol == "offline-fixed")
    if protocol == ORACLE:
        assert "chosen" not in tables[0].conclusion
        assert "a gain of +20.0 points over the last epoch" in to_markdown(tables[0])
        figure = over_epochs(tables[0])
        assert figure is not None
        assert figure["data"][0]["y"] == [80, 70, 30, 40]
    assert all(entry.title.endswith(f" · {protocol}") for entry in make_gains(tables))
    assert all(f"Protocol {protocol}." in grid.note for grid in make_grids(tables))
    page = write_report(make_report(tmp_path / "runs"), tmp_path / "page.html").read_text()
    assert "Before → after" in page
    assert "1 of 2" in page
    assert "0.4000 → 0.7000 (+0.3000)" in page
    assert (tmp_path / "page-before-after.csv").exists()


def test_online_runs_have_no_gains_of_epochs(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [4, 4]}))
    (run,) = read_runs(tmp_path / "runs")
    assert run.oracle_gap is None
    assert make_gains(make_tables([run])) == []
