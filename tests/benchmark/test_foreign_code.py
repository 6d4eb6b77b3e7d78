"""Files from elsewhere cannot run code unless the user allows it, and cannot write outside the run folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.benchmark import SuiteError, parse_suite
from holdfast.benchmark.finished import write_json
from holdfast.cli import app

SUITE = """\
name: NAME
models: ["MODEL"]
samples: 16
streams: [{name: continual, data: digits, corruptions: [contrast]}]
recipes: [source, tent]
"""
CODE = """\
from pathlib import Path
from torch import nn

def make():
    Path("ran").touch()
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(CODE)
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE.replace("NAME", "small").replace("MODEL", "file:net.py:make"))
    return path


def test_a_suite_file_runs_code_only_if_the_user_allows_it(suite: Path) -> None:
    refused = CliRunner().invoke(app, ["bench", str(suite), "--set", "recipes=[source]"])
    assert isinstance(refused.exception, ValueError)
    assert "names models that run code of their own: file:net.py:make; read that code" in str(refused.exception)
    assert not Path("ran").exists()
    allowed = CliRunner().invoke(app, ["bench", str(suite), "--set", "recipes=[source]", "--allow-code"])
    assert allowed.exit_code == 0, allowed.output
    assert Path("ran").exists()


def test_a_received_run_folder_runs_code_only_if_the_user_allows_it(suite: Path, tmp_path: Path) -> None:
    job = parse_suite(suite.read_text()).jobs()[1]
    (tmp_path / "received").mkdir()
    write_json(tmp_path / "received" / "manifest.json", {"asked": job.to_json(), "protocol": {}})
    refused = CliRunner().invoke(app, ["replay", "received", "-r", "never"])
    assert "run code of their own" in str(refused.exception)
    assert not Path("ran").exists()


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp/elsewhere", "..", "a/b"])
def test_the_name_of_a_suite_cannot_leave_the_run_folder(name: str) -> None:
    with pytest.raises((SuiteError, ValueError), match="name of a suite names its folder"):
        parse_suite(SUITE.replace("NAME", json.dumps(name)).replace("MODEL", "digits_resnet")).jobs()
