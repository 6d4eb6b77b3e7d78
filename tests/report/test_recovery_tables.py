"""Gains of recoveries over methods, and the arena."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_files import Row, WriteRun, batches

from holdfast.report import arena_tables, gain_table, make_report, make_tables, read_runs, write_report

SCRIPT = {"collapse": {"from_sample": 40, "samples": 20, "lr_factor": 100}, "stream": "collapse"}


def with_resets(corrects: list[int], resets: list[int]) -> list[Row]:
    rows = batches({"fog": corrects})
    for index in resets:
        rows[index]["recovered"] = "a reason"
    return rows


def test_a_gain_is_over_the_same_method_and_seed(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [1, 1]}))
    for seed in (0, 1):
        write_run("tent", batches({"fog": [4, 4 + seed]}), seed=seed, recovery="never")
        write_run("tent + oracle", batches({"fog": [7, 7]}), method="tent", seed=seed, recovery="oracle")
        write_run("sar", batches({"fog": [5, 5]}), seed=seed, recovery="loss_collapse")
        write_run("sar + oracle", batches({"fog": [4, 5]}), method="sar", seed=seed, recovery="oracle")
        write_run("eta", batches({"fog": [9, 9]}), seed=seed, recovery="never")  # nothing to compare with
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    gains = gain_table(table)
    assert gains is not None
    assert gains.columns == ["recovery", "tent", "sar", "average"]
    assert gains.rows == [
        ["base accuracy (%)", "42.5 ± 3.5", "50.0 ± 0.0", ""],
        ["oracle", "+27.5 ± 3.5", "-5.0 ± 0.0", "+11.2"],
        ["loss_collapse", "–", "+0.0 ± 0.0", ""],
    ]
    assert "Gains of recoveries" in write_report(make_report(tmp_path / "runs")).read_text()


@pytest.fixture
def arena(write_run: WriteRun, tmp_path: Path) -> Path:
    for protocol, stream in (({}, "healthy"), (SCRIPT, "collapse")):
        write_run("source", batches({"fog": [3] * 8}), stream=stream, protocol=protocol)
        corrects = [6] * 5 + [1] * 3 if protocol else [6] * 8
        write_run(
            "never", batches({"fog": corrects}), method="tent", recovery="never", stream=stream, protocol=protocol
        )
    late = with_resets([6] * 5 + [1, 1, 4], [1, 6])
    write_run("drop", late, method="tent", recovery="drop", stream="collapse", protocol=SCRIPT)
    write_run("drop", with_resets([6] * 8, [2, 3]), method="tent", recovery="drop", stream="healthy")
    return tmp_path / "runs"


def test_the_arena_counts_false_resets_missed_collapses_and_delays(arena: Path) -> None:
    (table,) = arena_tables(make_tables(read_runs(arena)))
    assert table.title == "demo · digits_resnet: the reset arena"
    assert table.rows == [
        ["never", "50.6", "10.0", "0.0", "1 of 1", "–"],
        ["drop", "52.5", "20.0", "23.1", "0 of 1", "1.0"],  # 3 resets in 8 + 5 healthy batches
    ]


def test_where_the_method_harms_itself_a_reset_is_not_false(arena: Path, write_run: WriteRun) -> None:
    protocol = {"stream": "hard"}
    write_run("source", batches({"fog": [5] * 8}), stream="hard", protocol=protocol)
    write_run("never", batches({"fog": [1] * 8}), method="tent", recovery="never", stream="hard", protocol=protocol)
    reset = with_resets([4] * 8, list(range(8)))
    write_run("drop", reset, method="tent", recovery="drop", stream="hard", protocol=protocol)
    (table,) = arena_tables(make_tables(read_runs(arena)))
    assert table.rows[1][3:] == ["23.1", "0 of 1", "1.0"]


def test_the_arena_counts_the_alarms_of_an_estimator_beside_resets(write_run: WriteRun, tmp_path: Path) -> None:
    rows = batches({"fog": [6] * 5 + [1] * 3})
    for index, one in enumerate(rows):
        one["estimates"] = {"risk": {"value": 0.9, "alarm": "too many errors" if index in (0, 7) else None}}
    write_run("source", batches({"fog": [3] * 8}), stream="collapse", protocol=SCRIPT)
    write_run("never", rows, method="tent", recovery="never", stream="collapse", protocol=SCRIPT)
    (table,) = arena_tables(make_tables(read_runs(tmp_path / "runs")))
    assert table.rows == [
        ["never", "41.2", "10.0", "0.0", "1 of 1", "–"],
        ["never, alarm by risk", "41.2", "10.0", "20.0", "0 of 1", "2.0"],  # 1 alarm in 5 healthy batches
    ]


def test_the_page_shows_the_arena_and_its_file(arena: Path) -> None:
    page = write_report(make_report(arena))
    assert "the reset arena" in page.read_text()
    assert page.with_name("report-demo-digits-resnet-the-reset-arena.csv").read_text().startswith("recipe,accuracy (%)")


def test_without_a_scripted_collapse_there_is_no_arena(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("tent", batches({"fog": [4]}))
    assert arena_tables(make_tables(read_runs(tmp_path / "runs"))) == []
