"""Device, precision and memory format of a run: in its name and protocol, and on its way from bytes to the network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from holdfast.benchmark import Job, SuiteError, load_suite, run
from holdfast.benchmark.building import build
from holdfast.benchmark.prefetch import fed
from holdfast.cli import app
from holdfast.machine.devices import Placement

JOB = next(job for job in load_suite("demo", {"samples": 48, "batch_size": 24}).jobs() if job.recipe.name == "tent")


def test_the_cpu_in_float32_changes_no_name() -> None:
    content = JOB.to_json()
    assert not {"device", "precision", "memory_format"} & content.keys()
    assert Job.from_json(content) == JOB
    assert load_suite("demo", {"samples": 48, "batch_size": 24, "device": "auto"}).jobs()[0].device == "cpu"


def test_each_placement_has_a_name_of_its_own_but_not_each_index() -> None:
    others = [
        replace(JOB, device="cuda"),
        replace(JOB, precision="bfloat16"),
        replace(JOB, memory_format="channels_last"),
    ]
    assert len({JOB.name, *(other.name for other in others)}) == 4
    assert replace(JOB, device="cuda:1").name == others[0].name
    for other in others:
        assert Job.from_json(json.loads(json.dumps(other.to_json()))) == other


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [("device", "gpu", "device must be auto, cpu"), ("precision", "half", "precision"), ("memory_format", "x", "last")],
)
def test_a_suite_refuses_what_there_is_not(key: str, value: str, problem: str) -> None:
    with pytest.raises(SuiteError, match=problem):
        load_suite("demo", {key: value})


def test_a_device_that_is_not_here_is_named(tmp_path: Path) -> None:
    missing = "cuda:7"
    with pytest.raises(ValueError, match=r"'cuda:7' is not available: torch sees .* here; choose auto or cpu"):
        run(replace(JOB, device=missing), tmp_path)
    for command in (
        ["bench", "demo", "--out", str(tmp_path), "--set", "seeds=[0]"],
        ["calibrate", "--out", str(tmp_path)],
        ["recommend", "--out", str(tmp_path), "--seeds", "1"],
        ["replay", "demo", "--job", "tent", "--out", str(tmp_path)],
        ["conformance", "--only", "source"],
        ["demo", "--executor", "serial", "--out", str(tmp_path)],
    ):
        result = CliRunner().invoke(app, [*command, "--device", missing])
        assert result.exit_code, command
        assert "is not available" in str(result.exception) + result.output, command


def test_a_run_in_another_precision_and_format_says_so(tmp_path: Path) -> None:
    usual = _rows(run(JOB, tmp_path))
    for changed in ({"precision": "bfloat16"}, {"memory_format": "channels_last"}):
        folder = run(replace(JOB, **changed), tmp_path)
        protocol = json.loads((folder / "manifest.json").read_text())["protocol"]
        assert {key: protocol.get(key) for key in changed} == changed
        entropies = [row["entropy"] for row in _rows(folder)]
        assert entropies == pytest.approx([row["entropy"] for row in usual], rel=0.1)
        assert entropies != [row["entropy"] for row in usual]


def test_bytes_become_the_same_floats_after_the_transfer() -> None:
    stream = build(JOB).stream
    for layout in ("contiguous", "channels_last"):
        batches = fed(stream.starting_at(0, stop=48, batch_size=24, stored=True), Placement(memory_format=layout))
        for batch, expected in zip(batches, stream.starting_at(0, stop=48, batch_size=24), strict=True):
            assert torch.equal(batch.inputs, expected.inputs)
            assert batch.inputs.is_contiguous(memory_format=getattr(torch, f"{layout}_format", torch.channels_last))


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
