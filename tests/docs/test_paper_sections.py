"""Sections that repeat tables of the papers are computed from their results, and empty without them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "paper_sections.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the documents are not beside the tests")


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def results(made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results of one's own, instead of the committed ones."""
    monkeypatch.setitem(made["pages"].__globals__, "RESULTS", tmp_path)
    monkeypatch.setitem(made["MEASURED"]["runs"].__globals__, "RESULTS", tmp_path)
    return tmp_path


def write(
    folder: Path,
    name: str,
    runs: list[dict[str, Any]],
    domains: tuple[str, ...] = (),
    plan: dict[str, Any] | None = None,
) -> None:
    """Write a condensed result, whose runs name their stream and their seed."""
    labels = {run["stream"] for run in runs}
    parts = {label: {"label": label, "domains": domains, "spec": {"plan": plan or {}}} for label in labels}
    listed = [{**run, "manifest": {"stream": run["stream"], "protocol": "p", "seed": run["seed"]}} for run in runs]
    (folder / f"{name}.json").write_text(json.dumps({"parts": {**parts, "p": {"model": "net"}}, "runs": listed}))


def cells(lines: list[str], first: str) -> list[str]:
    """Return the cells of the line that begins with one."""
    (line,) = [line for line in lines if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_a_section_without_its_result_is_empty(made: dict[str, Any], results: Path) -> None:
    assert not list(results.iterdir())
    for path, content in made["pages"]().items():
        for name, section in made["SECTIONS"].items():
            if section.page == path.stem:
                begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
                assert content.count(begin) == content.count(end) == 1
                assert not content.partition(begin)[2].partition(end)[0].strip()


def test_every_section_has_a_place_on_its_page(made: dict[str, Any]) -> None:
    for name, section in made["SECTIONS"].items():
        page = (ROOT / "docs" / "results" / f"{section.page}.md").read_text()
        assert page.count(f"<!-- {name} -->") == page.count(f"<!-- end of {name} -->") == 1
        assert (ROOT / "results" / f"{section.result}.yaml").is_file()


def test_lengths_of_transitions_are_those_of_the_walks(made: dict[str, Any]) -> None:
    content = json.loads((ROOT / "results" / "ccc-rivals-cifar10.json").read_text())
    streams = {run["manifest"]["stream"] for run in content["runs"]}
    hard = {
        str(plan["transitions"]): [len(one["cells"]) for one in plan["transitions"]]
        for plan in (content["parts"][stream]["spec"]["plan"] for stream in streams)
        if plan["difficulty"] == "hard"
    }
    steps = [step for walk in hard.values() for step in walk]
    shown = [str(len(steps)), str(min(steps)), str(max(steps)), f"{fmean(steps):.1f}", f"{median(steps):g}"]
    assert cells(made["lengths"](), "hard") == [*shown, "41 / 41 / 41 / 41"]


def test_unitta_stands_beside_the_mean_of_the_same_settings(made: dict[str, Any], results: Path) -> None:
    shares = {"source": 0.6, "bdn": 0.7, "lame": 0.5}
    runs = [
        {"recipe": recipe, "stream": stream, "seed": seed, "summary": {"accuracy": share + seed / 100, "samples": 6016}}
        for recipe, share in shares.items()
        for stream in ("(i,1)/(i,1)", "(n,1)/(1,1)")
        for seed in (0, 2)
    ]
    write(results, "unitta-official-cifar10", runs)
    lines = made["official"]()
    assert cells(lines, "`bdn`")[:3] == ["29.0 ± 1.4", "29.0 ± 1.4", "29.0"]
    known = made["published"]("unitta", made["WRN_28_10"])
    published = fmean(100 - known["bdn", setting] for setting in ("(i,1)/(i,1)", "(n,1)/(1,1)"))
    assert cells(lines, "`bdn`")[3] == f"{published:.1f}"
    assert "`bdn` has the least error, 29.0 %, the source 39.0 %; `lame` is worse" in " ".join(lines)


def test_speed_is_counted_in_every_domain(made: dict[str, Any], results: Path) -> None:
    """The moving means are 0.2, 0.5, 0.6 in one domain, at its best at the third batch, and constant in the other."""
    course = [0.2, 0.8, 0.8, 0.5, 0.5, 0.5]
    write(
        results,
        "eta-speed-cifar10",
        [{"recipe": "eta", "stream": "severity-1", "seed": 0, "batch_accuracy": course}],
        domains=("fog", "snow"),
    )
    assert cells(made["speed"](), "`eta`") == ["66.7", "55.0", "2.0", "3"]


def test_recoveries_are_gains_over_the_same_seed(made: dict[str, Any], results: Path) -> None:
    gains = {"": 0.0, " + oracle": 0.02, " + estimate_drop": -0.01, " + ours": 0.03}
    runs = [
        {
            "recipe": f"{method}{recovery}",
            "stream": stream,
            "seed": seed,
            "summary": {"accuracy": 0.5 + seed / 10 + (gain if seed else 2 * gain)},
        }
        for method in made["METHODS"]
        for recovery, gain in gains.items()
        for stream in ("published", "collapse")
        for seed in (0, 1)
    ]
    write(results, "aetta-recovery-cifar10", runs)
    lines = made["recoveries"]()
    tables = [lines[start:] for start, line in enumerate(lines) if line.startswith(("| Published", "| Rates"))]
    assert cells(tables[1], "DistShift") == ["+3.0 ± 1.4"] * 7
    assert cells(tables[1], "AETTA") == ["-1.5 ± 0.7"] * 7
    assert not [line for line in lines if line.startswith("| Episodic")]


def test_thresholds_stand_beside_the_published_ones(made: dict[str, Any], results: Path) -> None:
    shares = {"source": 0.3, "eata-H0-0.4": 0.4, "rdumb-H0-0.4": 0.45, "eata-H0-0.7": 0.5, "rdumb-H0-0.7": 0.3}
    runs = [
        {"recipe": recipe, "stream": "medium", "seed": 0, "summary": {"accuracy": share}}
        for recipe, share in shares.items()
    ]
    write(results, "ccc-thresholds-cifar10", runs)
    lines = made["thresholds"]()
    assert cells(lines, "0.4 ln K") == ["40.0", "45.0", "30.8", "32.6"]  # the default of both
    assert cells(lines, "0.7 ln K") == ["50.0", "30.0", "0.33", "16.8"]
    assert "RDumb is ahead of EATA at 1 of 2 thresholds" in " ".join(lines)
