"""What a notebook shows: short lines, tables, figures, and bars that are drawn anew."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

import holdfast
from holdfast.benchmark import Progress, bench, parse_suite
from holdfast.benchmark.live import LiveProgress, shown
from holdfast.commands.recommend import Choice, Recommendation, Scenario
from holdfast.data import Digits
from holdfast.diagnosis import Diagnosis, Finding, StepCost
from holdfast.display.bars import Bars, in_notebook
from holdfast.models.tiny import tiny_resnet
from holdfast.records import Estimate, Reset, Step
from holdfast.report import make_report, read_runs
from holdfast.streams import continual

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 32
streams: [{name: continual, data: digits, corruptions: [contrast], samples_per_domain: 64}]
recipes: [source, batch_norm]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    assert not any(outcome.error for outcome in bench(parse_suite(SUITE).jobs(), folder))
    return folder / "small"


RECOMMENDATION = Recommendation(
    Scenario(),
    [
        Choice("tent", 90.0, 12.0, 10.0, 14.0, 2.5, beaten_by="anchor"),
        Choice("anchor", 89.0, 11.0, 9.0, 13.0, 1.4),
        Choice("source", 78.0, 0.0, 0.0, 0.0, 1.0),
    ],
    {"lame": "<no head>"},
)
DIAGNOSIS = Diagnosis((Finding("mode", "warn", "training", "call eval()"),), costs=(StepCost("tent", 3.0, 2.5, 400.0),))
STEP = Step(
    torch.zeros(4, 10),
    loss=0.25,
    estimates={"guard": Estimate(0.712, 0.601, 0.75, gain=0.02)},
    events=(Reset("collapse <1>"),),
)


def test_things_are_one_line_in_a_terminal_and_a_table_in_a_notebook(runs: Path) -> None:
    model = holdfast.guard(tiny_resnet(), "tent")
    stream = continual(Digits(), corruptions=["fog"], samples_per_domain=64)
    report = make_report(runs)
    things = [model, stream, STEP, STEP.estimates["guard"], RECOMMENDATION, DIAGNOSIS, report, *report.tables]
    for thing in [*things, *read_runs(runs)]:
        line, html = repr(thing), thing._repr_html_()
        assert "\n" not in line, line
        assert len(line) < 250, line
        assert line.startswith(type(thing).__name__ + "(")
        assert html.count("<table>") == html.count("</table>") >= 1
        assert "<no head>" not in html, "text is escaped"
        assert "collapse <1>" not in html


def test_a_table_shows_its_scores_and_its_conclusion(runs: Path) -> None:
    (table,) = make_report(runs).tables
    html = table._repr_html_()
    assert all(f">{line.label}</th>" in html for line in table.lines)
    assert table.conclusion in html


def test_a_recommendation_never_names_what_was_stopped() -> None:
    best = RECOMMENDATION.best
    assert best is not None
    assert best.name == "anchor"
    assert [choice.name for choice in RECOMMENDATION.best_per_cost] == ["anchor"]
    rows = {row[0]: row[-1] for row in RECOMMENDATION.table().rows}
    assert rows == {"tent": "lost to anchor", "anchor": "best", "source": ""}


def test_a_plot_of_anything_is_a_figure(runs: Path) -> None:
    report = make_report(runs)
    for thing in (runs, report, report.tables[0], read_runs(runs)):
        assert {"source", "batch_norm"} <= {trace.name for trace in holdfast.plot(thing).data}
    assert len(holdfast.plot(report, "cost").data) == 2
    guard = holdfast.plot([STEP, STEP])
    assert [trace.name for trace in guard.data] == ["guard interval", "guard", "reset"]
    assert guard.data[1].y == (71.2, 71.2)
    assert holdfast.plot(RECOMMENDATION).data[0].text == ("tent", "anchor", "source")
    assert holdfast.plot(DIAGNOSIS).data[0].y == (2.5,)
    with pytest.raises(ValueError, match="no estimates to plot"):
        holdfast.plot([Step(torch.zeros(1, 2))])
    with pytest.raises(ValueError, match="cannot plot int"):
        holdfast.plot(3)
    with pytest.raises(ValueError, match="did you mean 'cost'"):
        holdfast.plot(report, "costs")  # type: ignore[arg-type]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """IPython as a notebook loads it, which keeps what is displayed."""
    pictures: list[str] = []
    handle = SimpleNamespace(update=lambda html: pictures.append(html))

    def display(html: str, *, display_id: bool) -> Any:
        assert display_id
        pictures.append(html)
        return handle

    ipython, displaying = ModuleType("IPython"), ModuleType("IPython.display")
    vars(ipython).update(get_ipython=lambda: SimpleNamespace(kernel=object()))
    vars(displaying).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displaying)
    return pictures


def test_bars_in_a_notebook_are_html_that_is_drawn_anew(notebook: list[str]) -> None:
    assert in_notebook()
    with shown(None, 2) as tell:
        assert isinstance(tell, LiveProgress)
        tell(Progress("tent-1", "tent, seed <0>", 32, 64, 16))
        tell(Progress("tent-1", "tent, seed <0>", 64, 64, 48, finished=True))
    assert 'value="1" max="2"' in notebook[-1]
    assert "1 of 2: tent, seed &lt;0&gt;, error 25.0 %" in notebook[-1]


def test_nobody_sees_bars_outside_of_terminals_and_notebooks() -> None:
    text = io.StringIO()
    with Bars(Console(file=text)) as bars:
        bars.update(bars.add("work", total=2), done=1)
    assert text.getvalue() == ""
    with shown(None, 2) as tell:
        assert tell is None
    with shown(False, 2) as tell:
        assert tell is None
    with shown(print, 2) as tell:
        assert tell is print  # type: ignore[comparison-overlap]
