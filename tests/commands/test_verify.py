"""`holdfast verify`: true claims hold to the bit, changed ones do not, and a whole path ends with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.benchmark import bench, parse_suite
from holdfast.cli import app
from holdfast.commands.verify import claims_in, verify

ROOT = Path(__file__).resolve().parents[2]
SUITE = """\
name: small
models: [digits_resnet]
batch_size: 32
streams: [{name: continual, data: digits, corruptions: [contrast], samples_per_domain: 128}]
recipes: [source, {name: tent, lr: 0.01}]
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    assert not any(outcome.error for outcome in bench(parse_suite(SUITE).jobs(), tmp_path / "runs"))
    return tmp_path / "runs" / "small"


def test_a_folder_of_runs_holds_to_the_bit(runs: Path) -> None:
    verified = verify(runs, sample=5, seed=0)
    assert [(one.promise, one.problem) for one in verified] == [("to the bit", None)] * 2
    assert {one.name.split(",")[0] for one in verified} == {"source", "tent"}


def test_changed_rows_are_found(runs: Path) -> None:
    (folder,) = runs.glob("tent*")
    (folder / "rows.parquet").unlink(missing_ok=True)
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    correct, samples = lines[0]["domains"]["contrast"]
    lines[0]["domains"]["contrast"] = [correct - 1, samples]
    lines[0]["accuracy"] = (correct - 1) / samples
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = CliRunner().invoke(app, ["verify", str(runs), "--json"])
    assert result.exit_code == 1
    problems = {one["name"].split(",")[0]: one["problem"] for one in json.loads(result.stdout)["verified"]}
    assert problems["source"] is None
    assert "correct, batch_accuracy differ" in problems["tent"]


def test_other_versions_are_compared_within_the_tolerance(runs: Path) -> None:
    for manifest in runs.glob("*/manifest.json"):
        content = json.loads(manifest.read_text())
        content["protocol"]["versions"]["torch"] = "1.0"
        manifest.write_text(json.dumps(content))
    verified = verify(runs, seed=0)
    assert {one.promise for one in verified} == {"within 0.5 points, other versions"}
    assert not any(one.problem for one in verified)


def test_other_weights_cannot_be_reproduced(runs: Path) -> None:
    for manifest in runs.glob("*/manifest.json"):
        content = json.loads(manifest.read_text())
        content["protocol"]["weights"] = "0"
        manifest.write_text(json.dumps(content))
    assert {one.problem for one in verify(runs)} == {"weights cannot be reproduced here"}


@pytest.mark.slow
def test_a_file_of_results_is_verified_and_noted(runs: Path, tmp_path: Path) -> None:
    condense = Path(__file__).resolve().parents[2] / "benchmarks" / "condense.py"
    if not condense.exists():
        pytest.skip("benchmarks/ is not beside the tests")
    file = tmp_path / "small.json"
    subprocess.run([sys.executable, condense, "--batches", runs, file], check=True, capture_output=True)
    record = tmp_path / "verified.json"
    result = CliRunner().invoke(app, ["verify", str(file), "--sample", "1", "--record", str(record)])
    assert result.exit_code == 0, result.output
    assert json.loads(record.read_text())["small.json"]["runs"] == 1
    content = json.loads(file.read_text())
    for part in content["parts"].values():  # as results of earlier versions, which hold no jobs
        part.pop("averages", None)
    for run in content["runs"]:
        run["manifest"].pop("asked")
        run["summary"]["correct"] += 1
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"put the suite beside it, as small\.yaml"):
        verify(file)
    (tmp_path / "small.yaml").write_text(SUITE)
    assert len(claims_in(file)) == 2
    assert all("correct" in str(one.problem) for one in verify(file))


def test_committed_results_can_be_verified() -> None:
    results = Path(__file__).resolve().parents[2] / "results"
    if not results.exists():
        pytest.skip("the results are not beside the tests")
    for name in ("collapse-digits", "asr-digits", "alarms-digits"):
        content = json.loads((results / f"{name}.json").read_text())
        assert len(claims_in(results / f"{name}.json")) == len(content["runs"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the wheel that this source makes, in an environment that has everything else from this one."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("the source is not beside the tests")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # building writes into it
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "holdfast", source / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip"]
    building = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source]
    subprocess.run([*pip, "wheel", *building], check=True)
    venv.create(folder / "venv", with_pip=False)
    (file,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--quiet", "--no-deps", file], check=True)
    (installed,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (installed / "beside.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return python.with_name("holdfast")


def rows_below(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each run without their times."""
    lines = {path.parent.name: path.read_text().splitlines() for path in folder.glob("*/rows.jsonl")}
    return {name: [json.loads(line) | {"step_seconds": 0} for line in rows] for name, rows in lines.items()}


@pytest.mark.slow
def test_the_whole_path_in_an_empty_folder_with_the_installed_wheel(tmp_path: Path, wheel: Path) -> None:
    """From an idea to a verified table: new, test, run, kill, resume, compare, report and verify."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONPATH", None)

    def holdfast(*arguments: str) -> str:
        done = subprocess.run([wheel, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = [wheel.with_name("python"), "-c", "import holdfast; print(holdfast.__file__)"]
    assert str(wheel.parents[1]) in subprocess.check_output(where, cwd=tmp_path, text=True, env=env)
    holdfast("new", "method", "sharp_tent")
    small = ["--set", "streams.*.samples_per_domain=64", "--set", "seeds=[0, 1]"]
    command = ["bench", "sharp_tent.yaml", "--import", "sharp_tent.py", "--executor", "processes", *small]
    # A kill in the middle leaves nothing behind that the next run does not mend.
    killed = subprocess.Popen([wheel, *command], cwd=tmp_path, env=env, start_new_session=True)
    rows = tmp_path / "runs" / "sharp_tent"
    while killed.poll() is None and not rows_below(rows):
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    holdfast(*command)
    holdfast("bench", "sharp_tent.yaml", "--import", "sharp_tent.py", "--out", "alone", *small)
    assert rows_below(rows) == rows_below(tmp_path / "alone" / "sharp_tent")
    compared = holdfast("compare", "runs/sharp_tent", "--recipes", "sharp_tent,tent")
    assert "| sharp_tent − tent |" in compared
    assert "4 runs (2 streams, 2 seeds)" in compared
    report = holdfast("report", "runs/sharp_tent")
    assert "± standard deviation over 2 seeds" in report
    (table,) = (tmp_path / "runs" / "sharp_tent").glob("report-all-*.tex")
    assert r"$\pm$" in table.read_text()
    verified = json.loads(holdfast("verify", "runs/sharp_tent", "--sample", "2", "--allow-code", "--json"))["verified"]
    assert [one["problem"] for one in verified] == [None, None]
    changed = tmp_path / "sharp_tent.py"
    changed.write_text(changed.read_text().replace("exponent: float = 1.0", "exponent: float = 2.0"))
    printed = holdfast("bench", "sharp_tent.yaml", "--allow-code", *small)
    assert "(16 finished)" in printed
    assert len(list((tmp_path / "runs" / "sharp_tent").glob("sharp_tent-*"))) == 8, "a changed file is another protocol"
    assert len(list((tmp_path / "runs" / "sharp_tent").glob("tent-*"))) == 4, "other recipes are kept"
