"""Comparisons of runs: pairs, intervals, and refused protocols."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from run_files import WriteRun, batches, row

from holdfast.randomness import seeded_rng
from holdfast.report import UnequalProtocolsError, compare
from holdfast.report.compare import paired_difference


def test_one_run_against_another(write_run: WriteRun) -> None:
    a = write_run("source", batches({"fog": [5, 5, 5, 5]}))
    b = write_run("tent", batches({"fog": [6, 7, 6, 9]}))
    comparison = compare(a, b)
    (pair,) = comparison.pairs
    assert (pair.recipe_a, pair.recipe_b, pair.batches) == ("source", "tent", 4)
    assert (pair.accuracy_a, pair.accuracy_b) == (0.5, 0.7)
    assert pair.difference == pytest.approx(0.2)
    # By hand: gains 1 2 1 4 leave residuals -1 0 -1 2; one lag of weight 1/2; t(3) at 97.5 % is 3.182446.
    total = (1 + 0 + 1 + 4) + 2 * 0.5 * (0 + 0 - 2)
    half_width = 3.182446305 * math.sqrt(4 / 3 * total) / 40
    assert (pair.low, pair.high) == pytest.approx((0.2 - half_width, 0.2 + half_width))


def test_interval_covers_what_it_says_on_correlated_batches() -> None:
    """Differences that persist for a few batches, as those of an adapting model do."""
    rng = seeded_rng(0, "coverage")
    sizes = np.full(300, 100)
    covered = 0
    for _ in range(300):
        noise = rng.normal(0, 5, 300)
        for batch in range(1, 300):
            noise[batch] += 0.4 * noise[batch - 1]
        difference, half_width = paired_difference(sizes, np.zeros(300, np.int64), noise.round().astype(np.int64))
        covered += abs(difference) <= half_width
    assert 0.88 < covered / 300 < 0.99  # without the lags it is 0.79


def test_samples_weigh_the_same(write_run: WriteRun) -> None:
    a = write_run("source", [row(0, {"fog": (5, 10)}), row(10, {"fog": (0, 2)})])
    b = write_run("tent", [row(0, {"fog": (5, 10)}), row(10, {"fog": (2, 2)})])
    (pair,) = compare(a, b).pairs
    assert pair.difference == pytest.approx(2 / 12)
    # By hand: gains 0 and 2 of 10 and 2 samples leave residuals ∓5/3; one lag of weight 1/2; t(1) is 12.706205.
    total = 2 * 25 / 9 - 25 / 9
    assert pair.high - pair.difference == pytest.approx(12.706204736 * math.sqrt(2 / 1 * total) / 12)


def test_one_batch_has_no_interval(write_run: WriteRun) -> None:
    run = write_run("source", batches({"fog": [5]}))
    comparison = compare(run, run)
    assert math.isnan(comparison.pairs[0].low)
    assert json.loads(json.dumps(comparison.to_dict(), allow_nan=False))["pairs"][0]["low"] is None
    assert re.search(r"\| – +\|", comparison.to_markdown())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "recovery",
            "periodic(every_batches=2)",
            r"differ in recovery: 'none' in A and 'periodic\(every_batches=2\)' in B",
        ),
        ("batch_size", 20, "differ in batch_size: 10 in A and 20 in B"),
        ("seed", 1, "differ in seed: 0 in A and 1 in B"),
        ("weights", "77", "differ in weights: '90ab' in A and '77' in B"),
        (
            "versions",
            {"holdfast": "0.1.0", "python": "3.11.7", "torch": "2.4.0", "numpy": "2.4.6"},
            "differ in versions: torch is '2.13.0' in A and '2.4.0' in B",
        ),
    ],
)
def test_unequal_protocols_name_the_field(write_run: WriteRun, field: str, value: object, message: str) -> None:
    a = write_run("tent", batches({"fog": [5, 5]}))
    b = write_run("tent", batches({"fog": [6, 6]}), protocol={field: value})
    with pytest.raises(UnequalProtocolsError, match=rf"{message}; .*allow=\['{field}'\]"):
        compare(a, b)
    comparison = compare(a, b, allow=[field])
    assert list(comparison.pairs[0].unequal) == [field]
    assert f"Unequal, as allowed: {field}" in comparison.to_markdown()


def test_a_field_that_only_one_protocol_has_is_a_difference(write_run: WriteRun) -> None:
    a = write_run("tent", batches({"fog": [5, 5]}))
    b = write_run("tent", batches({"fog": [6, 6]}), protocol={"precision": "bfloat16"})
    with pytest.raises(UnequalProtocolsError, match="differ in precision: None in A and 'bfloat16' in B"):
        compare(a, b)


def test_allowing_what_does_not_exist_is_a_mistake(write_run: WriteRun) -> None:
    run = write_run("tent", batches({"fog": [5, 5]}))
    with pytest.raises(ValueError, match="did you mean 'versions'"):
        compare(run, run, allow=["version"])


def test_batches_of_other_sizes_meet_where_both_end(write_run: WriteRun) -> None:
    a = write_run("tent", batches({"fog": [5, 6, 7, 8]}))
    b = write_run("tent", batches({"fog": [10, 20]}, size=20), protocol={"batch_size": 20})
    (pair,) = compare(a, b, allow=["batch_size"]).pairs
    assert (pair.batches, pair.accuracy_a, pair.accuracy_b) == (2, 26 / 40, 30 / 40)
    # By hand: 10 − 11 and 20 − 15 of 20 samples each leave residuals ∓3; one lag of weight 1/2.
    half_width = 12.706204736 * math.sqrt(2 / 1 * (9 + 9 - 9)) / 40
    assert (pair.low, pair.high) == pytest.approx((0.1 - half_width, 0.1 + half_width))


def test_folders_are_paired_by_recipe_stream_model_and_seed(write_run: WriteRun, tmp_path: Path) -> None:
    for side, correct in (("a", 5), ("b", 6)):
        for seed in (1, 0) if side == "a" else (0, 1):
            rows = batches({"fog": [correct + seed, correct]})
            write_run("tent", rows, seed=seed, folder=tmp_path / side / f"tent-{seed}")
    write_run("sar", batches({"fog": [5]}), folder=tmp_path / "a" / "sar")
    comparison = compare(tmp_path / "a", tmp_path / "b")
    assert {pair.seed: pair.difference for pair in comparison.pairs} == pytest.approx({0: 0.1, 1: 0.1})
    assert comparison.only_a == ["sar on continual, digits_resnet, seed 0"]
    assert comparison.only_b == []
    assert "Only in A: sar on continual" in comparison.to_markdown()
    lines = [line for line in comparison.to_markdown().splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {10}
    shutil.copytree(tmp_path / "a" / "sar", tmp_path / "a" / "sar-again")
    with pytest.raises(ValueError, match="are both sar on continual"):
        compare(tmp_path / "a", tmp_path / "b")


def test_folders_without_a_pair_say_so(write_run: WriteRun, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run("tent", batches({"fog": [5]}), seed=seed, folder=tmp_path / "a" / str(seed))
        write_run("sar", batches({"fog": [5]}), seed=seed, folder=tmp_path / "b" / str(seed))
    with pytest.raises(ValueError, match=r"no run of .* has a partner"):
        compare(tmp_path / "a", tmp_path / "b")


def test_unfinished_runs_are_not_compared(write_run: WriteRun) -> None:
    a = write_run("tent", batches({"fog": [5, 5]}))
    b = write_run("tent", batches({"fog": [6]}), finished=False, length=20)
    with pytest.raises(ValueError, match=r"is not finished \(10 of 20 samples\)"):
        compare(a, b)
