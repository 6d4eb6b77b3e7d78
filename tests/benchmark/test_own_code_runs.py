"""Runs with code of one's own: in every executor, resumed, replayed, and under another protocol when it changes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.benchmark import Job, SuiteError, bench, load_suite, run
from holdfast.cli import app
from holdfast.machine.stopping import Stopped
from holdfast.options.own_code import forget_file, loaded_files
from holdfast.registry import REGISTRIES
from holdfast.report import make_tables, read_runs

CODE = '''\
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from holdfast.corruptions import corruption
from holdfast.data import DATASETS
from holdfast.estimators import ESTIMATORS, Estimator
from holdfast.methods import METHODS, Method
from holdfast.models import MODELS, seeded_weights
from holdfast.records import Estimate
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.streams import STREAMS, ListedStream


@METHODS.register("own_method")
class OwnMethod(Method):
    """Minimise the entropy of the predictions."""

    def loss(self, inputs, logits):
        return SIGN * torch.distributions.Categorical(logits=logits).entropy().mean()
'''
SHARED = '''

@corruption("own_dark", {family: [1, 0.9, 0.8, 0.7, 0.6, 0.5] for family in ("32", "64", "224")}, citation="ours")
def own_dark(images, factor):
    """Darken the image."""
    return (images * factor).astype(np.uint8)


@STREAMS.register("own_stream")
@dataclass(frozen=True, kw_only=True)
class OwnStream(ListedStream):
    """Every second sample is dark."""

    severity: float = 5
    samples: int = 48

    def order(self, labels, rng):
        for number, sample in enumerate(rng.permutation(len(labels))[: self.samples]):
            yield sample, "own_dark" if number % 2 else "clean", self.severity


@DATASETS.register("own_data")
def own_data(*, samples: int = 64):
    """Noise with labels."""
    draws = np.random.default_rng(0)
    return draws.random((samples, 3, 16, 16), np.float32), draws.integers(0, 4, samples)


@MODELS.register("own_net")
def own_net():
    """A small network."""
    with seeded_weights(0):
        layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)
        return nn.Sequential(*layers).eval()
'''
SUITE = """\
name: own
imports: IMPORTS
models: [MODEL]
batch_size: 16
streams: [STREAM]
recipes: [source, own_method]
"""
BUILT_IN = "{name: continual, data: digits, corruptions: [contrast], samples_per_domain: 96}"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    """Be a process that has loaded nothing."""
    for file in loaded_files():
        forget_file(file)
    assert not any(name.startswith("own_") for registry in REGISTRIES for name in registry.names())


def suite_in(folder: Path, *, shared: bool = False, sign: int = 1, imports: str = "[own_code.py]") -> Path:
    (folder / "own_code.py").write_text(CODE.replace("SIGN", str(sign)) + (SHARED if shared else ""))
    model, stream = ("own_net", "{name: own_stream, data: own_data}") if shared else ("digits_resnet", BUILT_IN)
    text = SUITE.replace("MODEL", model).replace("STREAM", stream).replace("IMPORTS", imports)
    (folder / "suite.yaml").write_text(text)
    return folder / "suite.yaml"


def jobs_of(suite: Path) -> list[Job]:
    return load_suite(suite, allow_code=True).jobs()


def rows_of(folder: Path | None) -> list[dict[str, Any]]:
    assert folder is not None
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{key: row[key] for key in row if key != "step_seconds"} for row in lines]


def protocol_of(folder: Path | None) -> dict[str, Any]:
    assert folder is not None
    return dict(json.loads((folder / "manifest.json").read_text())["protocol"])


EXECUTORS = [
    "processes",
    *(
        pytest.param(
            name,
            marks=[
                pytest.mark.slow,
                pytest.mark.filterwarnings("ignore"),
                pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed"),
            ],
        )
        for name, package in (("ray", "ray"), ("slurm", "submitit"))
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_executor_has_the_rows_of_a_serial_run(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SLURM_CLUSTER", "local")
    monkeypatch.setenv("HOLDFAST_SLURM_LOGS", str(tmp_path / "logs"))
    jobs = jobs_of(suite_in(tmp_path, shared=True))
    serial = bench(jobs, tmp_path / "serial")
    assert [outcome.error for outcome in serial] == [None, None]
    (tmp_path / "own_code.py").unlink()  # the text travels, not the path
    others = bench(jobs, tmp_path / executor, executor=executor, render_workers=1)
    assert [rows_of(other.folder) for other in others] == [rows_of(one.folder) for one in serial]


def test_a_recipes_own_file_is_in_its_protocol_and_not_in_that_of_the_others(tmp_path: Path) -> None:
    source, own = (bench([job], tmp_path / "runs")[0].folder for job in jobs_of(suite_in(tmp_path)))
    (digest,) = [file.digest for file in loaded_files()]
    assert "recipe_imports" not in protocol_of(source)
    assert protocol_of(own)["recipe_imports"] == {"own_code.py": digest}
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert [line.label for line in table.lines] == ["source", "own_method"]


def test_code_of_stream_data_and_model_is_in_every_protocol(tmp_path: Path) -> None:
    outcomes = bench(jobs_of(suite_in(tmp_path, shared=True)), tmp_path / "runs")
    (digest,) = [file.digest for file in loaded_files()]
    assert [protocol_of(outcome.folder)["imports"] for outcome in outcomes] == [{"own_code.py": digest}] * 2


def test_a_changed_file_is_another_protocol(tmp_path: Path) -> None:
    source, own = jobs_of(suite_in(tmp_path))
    before = bench([own], tmp_path / "runs")[0].folder
    same_source, changed = jobs_of(suite_in(tmp_path, sign=-1))
    assert same_source.name == source.name, "the source does not depend on the file"
    assert changed.name != own.name
    after = bench([changed], tmp_path / "runs")[0].folder
    assert rows_of(before) != rows_of(after)
    (table,) = make_tables(read_runs(tmp_path / "runs"))
    assert [line.label[:22] for line in table.lines] == ["own_method (code=own_c"] * 2


def test_an_interrupted_run_resumes_in_a_new_process(tmp_path: Path) -> None:
    _, own = jobs_of(suite_in(tmp_path))
    whole = rows_of(run(own, tmp_path / "whole"))

    def stop(progress: Any) -> None:
        if progress.samples >= 48:
            raise Stopped("enough")

    with pytest.raises(Stopped):
        run(own, tmp_path / "cut", checkpoint_seconds=0.0, progress=stop)
    forget()
    _, again = jobs_of(tmp_path / "suite.yaml")
    assert rows_of(run(again, tmp_path / "cut")) == whole


def test_imports_of_a_suite_file_need_the_users_consent(tmp_path: Path) -> None:
    suite = suite_in(tmp_path)
    with pytest.raises(SuiteError, match=r"line 2: .*imports Python files: own_code\.py; read them.*--allow-code"):
        load_suite(suite)
    assert not loaded_files()
    holdfast.import_file(tmp_path / "own_code.py")
    assert load_suite(suite).jobs()[1].imports == loaded_files()


def test_a_run_folder_brings_its_code_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, own = jobs_of(suite_in(tmp_path))
    folder = bench([own], Path("runs"))[0].folder
    forget()
    refused = CliRunner().invoke(app, ["replay", str(folder), "-r", "never", "--out", "again"])
    assert "imports Python files: own_code.py" in str(refused.exception)
    (tmp_path / "own_code.py").unlink()
    allowed = CliRunner().invoke(app, ["replay", str(folder), "-r", "never", "--out", "again", "--allow-code"])
    assert allowed.exit_code == 0, allowed.output
    (replayed,) = Path("again/replay").glob("own_method*")
    assert rows_of(replayed) == rows_of(folder)


def test_every_command_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    suite_in(tmp_path, shared=True, imports="[]")
    listed = CliRunner().invoke(app, ["list", "methods", "--json", "--import", "own_code.py"])
    assert "own_method" in listed.output
    for name in app.registered_commands:
        assert "--import" in CliRunner().invoke(app, [str(name.name), "--help"], terminal_width=200).output
    assert CliRunner().invoke(app, ["bench", "suite.yaml", "--import", "own_code.py"]).exit_code == 0
