"""Recipes compared over streams and seeds: differences, wins, corrections, ranks, and the ± of every table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.report import make_tables, read_runs, to_latex, to_markdown
from holdfast.report.grid import make_grids
from holdfast.report.order import bootstrap_error, standings
from holdfast.report.recipe_comparison import compare_recipes, critical_difference_svg, holm

BATCHES, SIZE = 40, 50


def write_run(root: Path, recipe: str, stream: str, seed: int, accuracy: float, **protocol: Any) -> Path:
    """Write a finished run whose batches scatter around an accuracy, the same way for every recipe of a stream."""
    folder = root / f"{recipe}-{stream}-{seed}"
    folder.mkdir(parents=True)
    draws = np.random.default_rng([seed, len(stream)])
    correct = np.clip(np.rint(SIZE * accuracy + draws.normal(0, 2, BATCHES)), 0, SIZE).astype(int)
    fields: Mapping[str, Any] = {"stream": f"digest of {stream}", "protocol": "online", "seed": seed, **protocol}
    manifest = {
        "schema": 1,
        "suite": "made",
        "job": folder.name,
        "recipe": {"name": recipe, "label": recipe, "method": recipe},
        "model": {"name": "net", "parameters": 1, "normalisation": "batch"},
        "stream": {"name": stream, "label": stream, "domains": ["fog"], "length": BATCHES * SIZE},
        "seed": seed,
        "protocol": fields,
        "fingerprint": "f",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    rows = [
        {
            "position": batch * SIZE,
            "size": SIZE,
            "domains": {"fog": [int(hits), SIZE]},
            "accuracy": hits / SIZE,
            "confidence": 0.5,
            "entropy": 1.0,
            "loss": None,
            "estimates": {},
            "recovered": None,
            "skipped": None,
            "forwards": 1.0,
            "backwards": 0.0,
            "step_seconds": 0.01,
            "expected": None,
            "gauges": {},
        }
        for batch, hits in enumerate(correct)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "summary.json").write_text(json.dumps({"samples": BATCHES * SIZE, "correct": int(correct.sum())}))
    return folder


ACCURACIES = {"source": 0.5, "tent": 0.7, "mine": 0.8}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for stream, shift in (("easy", 0.1), ("hard", 0.0)):
        for seed in range(3):
            for recipe, accuracy in ACCURACIES.items():
                gain = 0.01 * seed if recipe == "mine" else 0.0
                write_run(tmp_path, recipe, stream, seed, accuracy + shift + gain)
    return tmp_path


def accuracies(runs: Path, recipe: str) -> np.ndarray[Any, Any]:
    of_recipe = [run for run in read_runs(runs) if run.manifest.recipe.label == recipe]
    of_recipe.sort(key=lambda run: (run.manifest.stream.label, run.manifest.seed))
    return np.array([100 * run.rows.correct.sum() / run.rows.size.sum() for run in of_recipe])


def test_the_difference_is_that_of_a_paired_t_test(runs: Path) -> None:
    (pair,) = compare_recipes(runs, ["mine", "tent"]).pairs
    mine, tent = accuracies(runs, "mine"), accuracies(runs, "tent")
    expected = stats.ttest_rel(tent, mine)  # errors: tent's accuracy minus mine
    interval = expected.confidence_interval()
    assert pair.difference == pytest.approx(np.mean(tent - mine))
    assert pair.p == pytest.approx(expected.pvalue)
    assert (pair.low, pair.high) == pytest.approx((interval.low, interval.high))
    assert (pair.wins, pair.ties, pair.losses) == (6, 0, 0)
    (turned,) = compare_recipes(runs, ["tent", "mine"], metric="accuracy").pairs
    assert turned.difference == pytest.approx(np.mean(tent - mine))
    assert (turned.wins, turned.losses) == (0, 6)


def test_more_comparisons_are_corrected_and_ranked(runs: Path) -> None:
    comparison = compare_recipes(runs, ["source", "mine", "tent"])
    assert comparison.ranks == [3.0, 1.0, 2.0]
    assert [pair.corrected_p for pair in comparison.pairs] == holm([pair.p for pair in comparison.pairs])
    assert comparison.critical_difference == pytest.approx(
        2.343 * math.sqrt(3 * 4 / (6 * 6)), abs=2e-3
    )  # Demšar, table 5
    svg = critical_difference_svg(comparison)
    assert svg.count("<polyline") == 3
    assert "mine (1.00)" in svg
    assert "Mean ranks: mine 1.00, tent 2.00, source 3.00" in comparison.to_markdown()


def test_equal_recipes_tie(tmp_path: Path) -> None:
    for recipe in ("one", "other"):
        write_run(tmp_path, recipe, "easy", 0, 0.6)
    (pair,) = compare_recipes(tmp_path, ["one", "other"]).pairs
    assert (pair.wins, pair.ties, pair.losses) == (0, 1, 0)
    assert not pair.differs
    (table,) = make_tables(read_runs(tmp_path))
    ranks = standings([line.runs for line in table.lines], 0)
    assert ranks is not None
    assert [one.first for one in ranks] == [0.5, 0.5], "recipes that tie share the first rank"


def test_refusals_name_what_differs(tmp_path: Path) -> None:
    write_run(tmp_path, "tent", "easy", 0, 0.6, weights="one")
    write_run(tmp_path, "mine", "easy", 0, 0.7, weights="other")
    with pytest.raises(ValueError, match="under one protocol; they differ in weights"):
        compare_recipes(tmp_path, ["mine", "tent"])
    with pytest.raises(ValueError, match="no finished run of 'mien'; did you mean 'mine'"):
        compare_recipes(tmp_path, ["mien", "tent"])
    with pytest.raises(ValueError, match="at least two different recipes"):
        compare_recipes(tmp_path, ["tent"])


def test_the_command_prints_either_metric(runs: Path) -> None:
    for metric, sign in (("error", "-"), ("accuracy", "+")):
        printed = CliRunner().invoke(app, ["compare", str(runs), "--recipes", "mine, tent", "--metric", metric]).output
        assert f"| mine − tent | {sign}11." in printed or f"| mine − tent | {sign}10." in printed
        assert printed.startswith(f"### {metric.capitalize()}, in points")
    both = CliRunner().invoke(app, ["compare", str(runs)])
    assert "--recipes mine,tent" in str(both.exception)


def test_tables_have_a_margin_over_seeds(runs: Path) -> None:
    (grid,) = make_grids(make_tables(read_runs(runs)))
    mine = accuracies(runs, "mine").reshape(2, 3)
    assert grid.margins["mine", "average"] == pytest.approx(mine.mean(axis=0).std(ddof=1))
    assert grid.margins["mine", "easy"] == pytest.approx(mine[0].std(ddof=1))
    assert "± standard deviation over 3 seeds." in to_markdown(grid)
    assert (
        r"\caption{made $\cdot$ net. Error in \%, lower is better; $\pm$ standard deviation over 3 seeds.}"
        in to_latex(grid)
    )


def test_one_seed_has_the_margin_of_a_bootstrap_and_says_so(tmp_path: Path) -> None:
    for stream in ("easy", "hard"):
        for recipe, accuracy in ACCURACIES.items():
            write_run(tmp_path, recipe, stream, 0, accuracy)
    tables = make_tables(read_runs(tmp_path))
    run = tables[0].lines[0].runs[0]
    shares = run.rows.correct / run.rows.size
    assert bootstrap_error(run) == pytest.approx(100 * shares.std() / math.sqrt(BATCHES), rel=0.15)
    text = to_markdown(tables[0])
    assert f"± {bootstrap_error(run):.1f}" in text
    assert "paired bootstrap over batches (one seed)" in text
    (grid,) = make_grids(tables)
    expected = math.hypot(*(bootstrap_error(table.lines[0].runs[0]) for table in tables)) / 2
    assert grid.margins["source", "average"] == pytest.approx(expected)
