"""How sure the order of recipes is: ties, intervals and what a table says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from run_files import WriteRun, batches

from holdfast.display.formats import to_markdown
from holdfast.report import Table, make_report, make_tables, read_runs
from holdfast.report.page import render_page


def write_recipe(write_run: WriteRun, name: str, share: float, seed: int, luck: int) -> None:
    draws = np.random.default_rng([luck, seed])
    write_run(name, batches({"fog": draws.binomial(10, share, 60).tolist()}), seed=seed)


@pytest.fixture
def table(write_run: WriteRun, tmp_path: Path) -> Table:
    for seed in (0, 1, 2):
        write_recipe(write_run, "source", 0.5, seed, luck=0)
        write_recipe(write_run, "tent", 0.8, seed, luck=1)
        write_recipe(write_run, "eta", 0.8, seed, luck=2)
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    return table


def test_recipes_that_differ_by_luck_are_tied_and_the_source_is_not(table: Table) -> None:
    assert {line.label for line in table.leading} == {"tent", "eta"}
    assert table.conclusion.startswith("no single best: tent and eta are tied at about ")
    assert "source 5" in table.conclusion
    standings = dict(zip([line.label for line in table.lines], table.standings or [], strict=True))
    assert standings["source"].low > 20
    assert standings["source"].first == 0
    assert standings["source"].high < 40
    assert sum(one.first for one in standings.values()) == pytest.approx(1)
    assert standings[table.best.label].difference == standings[table.best.label].high == 0
    assert to_markdown(table).count("**") == 2 * (1 + 2 + 1)  # title, two means, the best of the only domain


def test_a_clear_winner_is_the_best(write_run: WriteRun, tmp_path: Path) -> None:
    for name, share in (("source", 0.5), ("tent", 0.6), ("eta", 0.8)):
        write_recipe(write_run, name, share, seed=0, luck=3)
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert table.conclusion.startswith("best: eta, ")
    assert [line.label for line in table.leading] == ["eta"]


def test_runs_over_other_batches_are_not_compared(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [5, 5]}))
    write_run("tent", batches({"fog": [6, 6, 6]}))
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert table.standings is None
    assert table.conclusion.startswith("best: tent")


@pytest.mark.usefixtures("table")
def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    page = render_page(make_report(tmp_path / "runs"), "report")
    assert "seeds 0, 1, 2" in page
    assert "batches of " in page
    assert "How sure the order is" in page
    assert page.count("<td>tied for the best</td>") == 2
    assert "<td>best</td>" not in page


def test_recipes_that_never_differ_are_tied(write_run: WriteRun, tmp_path: Path) -> None:
    for name, luck in (("source", 3), ("tent", 4), ("eta", 4)):
        write_recipe(write_run, name, 0.5 if name == "source" else 0.8, seed=0, luck=luck)
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert {line.label for line in table.leading} == {"tent", "eta"}
