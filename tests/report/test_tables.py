"""Tables and their columns in HTML, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from run_files import WriteRun, batches, row

from holdfast.display.formats import to_csv, to_html, to_latex, to_markdown
from holdfast.records import NOT_IN_TIME
from holdfast.report import Column, Table, columns, columns_of, make_tables, read_runs
from holdfast.report.speeds import course_table, make_courses


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Path:
    """Three recipes, two seeds; written with the source last, which has to come first."""
    for seed in (0, 1):
        write_run("tent", batches({"fog": [9, 8 + seed], "snow": [2, 2]}, backwards=1.0, step_seconds=0.03), seed=seed)
        own = {"order": "predicts after its update", "recovery": "periodic(every_batches=2)"}
        reset = batches({"fog": [8, 8], "snow": [7, 8 + seed]}, forwards=2.0)
        reset[1]["recovered"] = "every 2 batches"
        write_run("rdumb", reset, seed=seed, method="eta", protocol=own)
        write_run("source", batches({"fog": [5, 6], "snow": [5, 5]}), seed=seed)
    return tmp_path / "runs"


def only_table(folder: Path, metric: Any = "error") -> Table:
    (table,) = make_tables(read_runs(folder), metric)
    return table


def test_lines_scores_and_costs(runs: Path) -> None:
    table = only_table(runs)
    assert [line.label for line in table.lines] == ["source", "tent", "rdumb"]
    source, tent, rdumb = table.lines
    assert table.domains == ["fog", "snow"]
    assert tent.scores == pytest.approx({"fog": (15 + 10) / 2, "snow": 80.0})
    assert tent.mean == pytest.approx((47.5 + 45.0) / 2)
    assert tent.std == pytest.approx(stdev([47.5, 45.0]))
    assert source.std == 0
    assert (tent.passes, rdumb.passes) == (2.0, 2.0)
    assert table.relative_time(tent) == pytest.approx(3.0)
    assert (rdumb.resets, tent.resets) == (1, 0)
    assert rdumb.protocol("order") == "predicts after its update"


def test_accuracy_is_the_other_side_of_error(runs: Path) -> None:
    error, accuracy = only_table(runs), only_table(runs, "accuracy")
    for wrong, right in zip(error.lines, accuracy.lines, strict=True):
        assert wrong.mean + right.mean == pytest.approx(100)
    assert error.best.label == accuracy.best.label == "rdumb"
    with pytest.raises(ValueError, match="choose 'error' or 'accuracy'"):
        only_table(runs, "f1")


def test_conclusion_in_plain_words(runs: Path, write_run: WriteRun) -> None:
    assert only_table(runs).conclusion == (
        "best: rdumb, 21.2 % error; source 47.5 %; none of 2 recipes is worse than not adapting"
    )
    write_run("collapsed", batches({"fog": [1, 1], "snow": [1, 1]}))
    assert only_table(runs).conclusion.endswith("1 of 3 recipes is worse than not adapting")
    write_run("gone", batches({"fog": [1, 1], "snow": [1, 1]}))
    assert only_table(runs).conclusion.endswith("2 of 4 recipes are worse than not adapting")


def test_conclusion_without_a_source(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("tent", batches({"fog": [9]}))
    table = only_table(tmp_path / "runs")
    assert table.source is None
    assert math.isnan(table.relative_time(table.lines[0]))
    assert table.conclusion.startswith("best: tent, 10.0 % error; there is no source run")
    assert "worse than the source" not in to_html(table)


def test_mean_weighs_samples_not_domains(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", [row(0, {"fog": (30, 30)}), row(30, {"snow": (0, 10)})])
    assert only_table(tmp_path / "runs").lines[0].mean == 25.0


def test_unfinished_runs_are_in_no_table(runs: Path, write_run: WriteRun) -> None:
    write_run("eata", batches({"fog": [10]}), finished=False, length=40)
    assert "eata" not in [line.label for line in only_table(runs).lines]


def test_another_protocol_is_another_table(runs: Path, write_run: WriteRun) -> None:
    write_run("tent", batches({"fog": [9]}), protocol={"batch_size": 20})
    tables = make_tables(read_runs(runs))
    assert [table.title for table in tables] == [
        "continual · digits_resnet (batch_size=10)",
        "continual · digits_resnet (batch_size=20)",
    ]
    assert [len(table.lines) for table in tables] == [3, 1]


def test_source_data_is_the_recipes_own(runs: Path, write_run: WriteRun) -> None:
    write_run("eata", batches({"fog": [9, 9], "snow": [5, 5]}), protocol={"source_data": "2000 samples"})
    assert only_table(runs).lines[-1].protocol("source_data") == "2000 samples"


def test_one_label_with_two_settings_is_two_lines(write_run: WriteRun, tmp_path: Path) -> None:
    for lr in (0.01, 0.02):
        write_run("tent", batches({"fog": [5]}), options={"lr": lr})
    assert [line.label for line in only_table(tmp_path / "runs").lines] == ["tent (lr=0.01)", "tent (lr=0.02)"]


def test_the_seed_is_no_setting_of_the_recipe(write_run: WriteRun, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run("tent", batches({"fog": [5]}), seed=seed, options={"lr": 0.01, "seed": seed})
    (line,) = only_table(tmp_path / "runs").lines
    assert (line.label, len(line.runs), line.recipe.options) == ("tent", 2, {"lr": 0.01})


def test_the_same_run_twice_counts_once(runs: Path, write_run: WriteRun) -> None:
    write_run("source", batches({"fog": [5, 6], "snow": [5, 5]}), seed=0, folder=runs / "z-copy")
    assert [len(line.runs) for line in only_table(runs).lines] == [2, 2, 2]


class CellParser(HTMLParser):
    """Cells as (text, class), line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[tuple[str, str]]] = []
        self.mark: str | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.lines.append([])
        elif tag in ("th", "td"):
            self.mark = dict(attributes).get("class") or ""
            self.lines[-1].append(("", self.mark))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            self.mark = None

    def handle_data(self, data: str) -> None:
        if self.mark is not None:
            text, mark = self.lines[-1][-1]
            self.lines[-1][-1] = (text + data, mark)


def test_html_marks_best_and_worse(runs: Path) -> None:
    parser = CellParser()
    parser.feed(to_html(only_table(runs)))
    header, source, tent, rdumb = parser.lines
    assert [text for text, _ in header[:5]] == ["recipe", "fog", "snow", "mean", "passes\xa0×"]
    kinds = ["recipe", "domain", "domain", "mean"]
    assert [css for _, css in header[:4]] == kinds
    assert source[:4] == list(zip(["source", "45.0", "50.0", "47.5 ± 0.0"], kinds, strict=True))
    assert tent[:4] == [("tent", "recipe"), ("12.5", "domain best"), ("80.0", "domain worse"), ("46.2 ± 1.8", "mean")]
    assert rdumb[1:4] == [("20.0", "domain"), ("22.5", "domain best"), ("21.2 ± 1.8", "mean best")]
    assert [css for _, css in rdumb[-2:]] == ["protocol"] * 2
    assert [text for text, _ in rdumb[4:]] == [
        "2.00",
        "1.00",
        "1",
        "predicts after its update",
        "periodic(every_batches=2)",
    ]


def test_equal_as_printed_is_equally_good(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", [row(0, {"fog": (5000, 10000)})])
    write_run("tent", [row(0, {"fog": (4999, 10000)})])
    html = to_html(only_table(tmp_path / "runs"))
    assert html.count(' best">50.0<') == 4  # the domain and the mean, on both lines
    assert 'worse"' not in html


def test_a_column_that_is_added_to_the_list_is_in_every_format(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = Column("best_domain", lambda line: min(line.scores.values()), "best domain", "best domain (%)", css="added")
    monkeypatch.setattr(columns, "columns_of", lambda table: [*columns_of(table), added])
    table = only_table(runs)
    assert '<td class="added">12.5</td>' in to_html(table)
    assert to_csv(table).splitlines()[0].endswith(",best domain (%)")
    assert to_csv(table).splitlines()[2].endswith(",12.5")
    assert to_markdown(table).splitlines()[2].endswith(" best domain |")
    assert to_markdown(table).splitlines()[3].endswith("-: |")
    assert r"& best domain \\" in to_latex(table)
    assert r"{lrrrrrrllr}" in to_latex(table)


def test_confidence_and_entropy_stand_in_the_csv_file(write_run: WriteRun, tmp_path: Path) -> None:
    rows = [row(0, {"fog": (3, 4)}, confidence=0.9, entropy=0.2), row(4, {"fog": (3, 4)}, confidence=None, entropy=0.4)]
    write_run("source", rows)
    (line,) = csv.DictReader(io.StringIO(to_csv(only_table(tmp_path / "runs"))))
    assert float(line["mean confidence"]) == 0.9
    assert float(line["mean entropy (nats)"]) == pytest.approx(0.3)


@pytest.mark.parametrize("metric", ["error", "accuracy"])
def test_every_format_states_the_metric(runs: Path, metric: str) -> None:
    table = only_table(runs, metric)
    for text in (to_html(table), to_markdown(table), to_latex(table)):
        assert re.search(rf"{metric.capitalize()} in( |&nbsp;)\\?%, ", text)
        assert "over 2 seeds" in text
    assert f"mean {metric} (%)" in to_csv(table).splitlines()[0]


def test_csv_parses_to_the_last_digit(runs: Path, write_run: WriteRun) -> None:
    write_run('a,"b"', batches({"fog": [10, 9], "snow": [9, 9]}))
    lines = list(csv.DictReader(io.StringIO(to_csv(only_table(runs)))))
    tent, quoted = lines[1], lines[3]
    assert float(tent["mean error (%)"]) == 46.25
    assert float(tent["std error (%)"]) == pytest.approx(stdev([47.5, 45.0]), rel=1e-9)
    assert float(tent["fog error (%)"]) == 12.5
    assert float(tent["step time (x source)"]) == 3
    assert (tent["seeds"], tent["recovery"], tent["method"]) == ("2", "none", "tent")
    assert quoted["recipe"] == 'a,"b"'
    assert quoted["std error (%)"] == ""


def test_markdown_is_a_grid(runs: Path, write_run: WriteRun) -> None:
    write_run("a|b <i>", batches({"fog": [1, 1], "snow": [9, 9]}))
    text = to_markdown(only_table(runs))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    assert {len(line) for line in cells} == {10}
    assert all(re.fullmatch(r" -+:? ", cell) for cell in cells[1])
    assert [cell.strip() for cell in cells[3][:4]] == [
        "tent",
        "**12.5**",
        "*80.0*",
        "**46.2 ± 1.8**",
    ]  # tied in so few batches
    assert cells[5][0].strip() == r"a\|b &lt;i>"


def test_latex_is_balanced_and_escaped(runs: Path, write_run: WriteRun) -> None:
    write_run(r"50%_{a} & \b", batches({"fog": [1, 1], "snow": [9, 9]}))
    text = to_latex(only_table(runs))
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {9}
    assert all(line.endswith(r" \\") for line in body)
    assert body[3].startswith(r"50\%\_\{a\} \& \textbackslash{}b & ")
    assert r"\textbf{12.5} & \textcolor{gray}{80.0} & \textbf{46.2 $\pm$ 1.8}" in body[1]
    unescaped = re.sub(r"\\[{}]", "", text)
    assert unescaped.count("{") == unescaped.count("}")
    assert text.count(r"\begin") == text.count(r"\end")


def test_many_domains_leave_the_mean_in_print_and_all_in_csv(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({f"domain {number}": [5] for number in range(30)}))
    table = only_table(tmp_path / "runs")
    assert "domain 7" not in to_html(table)
    assert "30 domains" in to_html(table)
    assert "domain 7 error (%)" in to_csv(table)


def test_columns_follow_the_stream_without_what_it_never_reached(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run("source", batches({"fog": [5], "snow": [5]}))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["stream"]["domains"] = ["snow", "frost", "fog"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert only_table(tmp_path / "runs").domains == ["snow", "fog"]


def test_a_domain_that_never_came_is_a_gap(runs: Path, write_run: WriteRun) -> None:
    write_run("short", batches({"fog": [9, 9, 9, 9]}))
    line = only_table(runs).lines[-1]
    assert math.isnan(line.scores["snow"])
    assert '<td class="domain">–</td>' in to_html(only_table(runs))


def test_passes_of_estimators_are_a_column_of_their_own(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [5, 6]}, forwards=11.0, estimating=10.0))
    write_run("tent", batches({"fog": [8, 8]}, forwards=11.0, backwards=1.0, estimating=10.0))
    table = only_table(tmp_path / "runs")
    assert [(line.passes, line.estimating) for line in table.lines] == [(1.0, 10.0), (2.0, 10.0)]
    text = to_markdown(table)
    assert "| passes × | estimates × |" in text.splitlines()[2]
    assert "without those of estimators" in text


def test_runs_of_earlier_versions_count_estimators_among_their_passes(write_run: WriteRun, tmp_path: Path) -> None:
    watched = {"pdd": {"value": 0.5, "low": None, "high": None, "unknown": None, "gain": None}}
    write_run("source", batches({"fog": [5, 6]}, forwards=11.0, estimates=watched))
    text = to_markdown(only_table(tmp_path / "runs"))
    assert "estimates ×" not in text
    assert "with those of its estimates" in text


def test_only_batches_that_came_too_early_count_as_not_adapted_to(write_run: WriteRun, tmp_path: Path) -> None:
    rows = batches({"fog": [5, 5, 5, 5]})
    for one, skipped in zip(rows, (None, NOT_IN_TIME, "non-finite logits", None), strict=True):
        one["skipped"] = skipped
    write_run("tent", rows, protocol={"protocol": "online-timed", "speed": 1.0})
    (course,) = make_courses(make_tables(read_runs(tmp_path / "runs")))
    *_, adapted_to = course_table(course).columns
    assert adapted_to.csv_title == "adapted to at speed 1 (%)"
    assert adapted_to.cells[0].value == 75
