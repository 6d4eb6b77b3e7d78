"""Metrics of rows, with equal weight for each sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from run_files import WriteRun, batches, estimate, row

from holdfast.report import metrics, read_run


def test_every_sample_weighs_the_same(write_run: WriteRun) -> None:
    rows = read_run(write_run("tent", [row(0, {"fog": (8, 10)}), row(10, {"fog": (0, 2), "snow": (3, 3)})])).rows
    assert metrics.accuracy(rows) == 11 / 15
    assert metrics.domain_accuracy(rows) == {"fog": 8 / 12, "snow": 1.0}


def test_moving_accuracy_looks_back_over_samples(write_run: WriteRun) -> None:
    rows = read_run(write_run("tent", batches({"fog": [10, 0, 5, 5]}))).rows
    moving = metrics.moving_accuracy(rows, [10, 20, 30, 40, 25], window_samples=20)
    assert moving == pytest.approx([1.0, 0.5, 0.25, 0.5, (5 + 0 + 2.5) / 20])


def test_cost_counts_both_directions_per_sample(write_run: WriteRun) -> None:
    batch = {"fog": (5, 10)}
    rows = [
        row(0, batch, forwards=1.0, backwards=1.0, step_seconds=0.1),
        row(10, batch, forwards=1.0, backwards=0.5, step_seconds=0.2, skipped="no reliable sample"),
        row(20, {"fog": (5, 5)}, forwards=3.0, backwards=0.0, step_seconds=0.9, recovered="every 3 batches"),
    ]
    columns = read_run(write_run("tent", rows)).rows
    assert metrics.passes_per_sample(columns) == pytest.approx((20 + 15 + 15) / 25)
    assert metrics.median_step_seconds(columns) == 0.2
    assert (metrics.resets(columns), metrics.skipped_batches(columns)) == (1, 1)


def test_the_moving_average_leaves_out_what_is_not_known(write_run: WriteRun) -> None:
    batch = {"fog": (5, 10)}
    rows = [row(10 * index, batch, entropy=value) for index, value in enumerate((0.2, None, 0.6))]
    columns = read_run(write_run("tent", rows)).rows
    average = metrics.moving_average(columns, columns.entropy, [10, 15, 20, 30], 10)
    np.testing.assert_allclose(average, [0.2, 0.2, np.nan, 0.6])
    np.testing.assert_allclose(metrics.moving_average(columns, columns.entropy, [30], 30), [0.4])
    np.testing.assert_allclose(
        metrics.moving_average(columns, columns.accuracy, [30], 30), metrics.moving_accuracy(columns, [30], 30)
    )


def test_estimates_are_held_against_their_batch(write_run: WriteRun) -> None:
    batch = {"fog": (5, 10)}
    rows = [
        row(0, batch, estimates={"aetta": estimate(0.75), "late": estimate(None)}),
        row(10, batch, estimates={"aetta": estimate(0.5), "late": estimate(None)}),
        row(20, batch, estimates={"aetta": estimate(None), "late": estimate(None)}),
    ]
    columns = read_run(write_run("tent", rows)).rows
    errors = metrics.estimate_error(columns)
    assert errors["aetta"] == 0.125
    assert math.isnan(errors["late"])
    assert metrics.estimate_floor(columns) == pytest.approx(math.sqrt(2 / math.pi * 0.25 / 10))


def test_a_collapse_is_a_fall_below_the_source_that_lasts() -> None:
    source = np.full(100, 0.5)
    falling = np.linspace(0.9, 0.1, 100)
    assert metrics.collapse_onset(falling, source) == 50
    assert metrics.collapse_onset(falling[::-1], source) is None  # recovered
    assert metrics.collapse_onset(np.r_[np.full(97, 0.9), np.zeros(3)], source) is None  # too late to tell
    assert metrics.collapse_onset(np.zeros(100), source) == 0
