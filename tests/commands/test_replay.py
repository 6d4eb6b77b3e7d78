"""A recorded run suffices to run its stream again; changed streams are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.benchmark import run
from holdfast.benchmark.suite import parse_suite
from holdfast.cli import app
from holdfast.commands.replay import job_of, replay, replayed_jobs
from holdfast.options.spec import Spec
from holdfast.registry import UnknownNameError
from holdfast.report import make_tables, read_runs

SUITE = """\
name: small
models: [digits_resnet]
seeds: [3]
batch_size: 16
streams:
  - {name: continual, data: digits, corruptions: [contrast, pixelate], samples_per_domain: 32, severity: 4}
recipes: [{name: rdumb, label: often, every_batches: 2, lr: 2.0e-4}]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(parse_suite(SUITE).jobs()[0], tmp_path_factory.mktemp("runs"))


def test_a_run_is_replayed_through_other_recoveries(recorded: Path, tmp_path: Path) -> None:
    source, same, never = replay(recorded, [{"name": "periodic", "every_batches": 2}, {"name": "never"}], out=tmp_path)
    before = [json.loads(line)["domains"] for line in (recorded / "rows.jsonl").read_text().splitlines()]
    again = [json.loads(line)["domains"] for line in (Path(same.folder) / "rows.jsonl").read_text().splitlines()]
    assert again == before
    assert [reset.batch for reset in same.resets] == [2]
    assert same.resets[0].reason == "2 batches since the last reset"
    assert not never.resets
    assert (source.passes, never.recovery) == (1.0, "rdumb + never")
    (table,) = make_tables(read_runs(tmp_path / "replay"), "accuracy")
    assert [line.label for line in table.lines] == [source.recovery, same.recovery, never.recovery]
    assert [line.mean for line in table.lines] == pytest.approx([source.accuracy, same.accuracy, never.accuracy])


def test_the_method_keeps_its_options_and_the_old_recovery_loses_them(recorded: Path) -> None:
    _, job = replayed_jobs(job_of(recorded), [Spec("stochastic", options={"restore_share": 0.1})])
    label = "rdumb + stochastic(restore_share=0.1)"
    options = {"lr": 2e-4, "recovery": "stochastic", "recovery_options": {"restore_share": 0.1}}
    assert (job.recipe, job.seed, job.suite) == (Spec("rdumb", label, options), 3, "replay")


def test_a_stream_that_differs_from_the_recorded_one_is_refused(recorded: Path, tmp_path: Path) -> None:
    manifest = json.loads((recorded / "manifest.json").read_text())
    manifest["protocol"]["stream"] = "another"
    (tmp_path / "changed").mkdir()
    (tmp_path / "changed" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="stream of changed cannot be reproduced: another was recorded"):
        replay(tmp_path / "changed", [{"name": "never"}], out=tmp_path)
    del manifest["asked"]
    (tmp_path / "changed" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="by a version that did not keep its job"):
        job_of(tmp_path / "changed")


def test_bad_input_is_reported_in_one_sentence(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no manifest\.json, so it is not a run"):
        job_of(tmp_path)
    with pytest.raises(ValueError, match="neither the folder of a run nor a suite; did you mean 'demo'"):
        job_of("dmeo")
    with pytest.raises(ValueError, match="no adapting job that begins with 'tnet'"):
        job_of("demo", job="tnet")
    with pytest.raises(UnknownNameError, match="did you mean 'periodic'"):
        replay(recorded, [{"name": "periodc"}], out=tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean 'every_batches'"):
        replay(recorded, [{"name": "periodic", "every_batch": 3}], out=tmp_path)
    with pytest.raises(ValueError, match="every_batches of recovery 'periodic' must be a whole number from 1 to"):
        replay(recorded, [{"name": "periodic", "every_batches": 0}], out=tmp_path)
    assert not (tmp_path / "replay").exists()


def test_the_command_prints_a_table_or_json(recorded: Path, tmp_path: Path) -> None:
    command = [
        "replay",
        str(recorded),
        "-r",
        "never",
        "-r",
        "{name: periodic, every_batches: 2}",
        "--out",
        str(tmp_path),
    ]
    shown = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "2 batches since the last reset" in shown.output
    result = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
    replayed = json.loads(result.stdout)
    assert [one["recovery"] for one in replayed] == ["source", "rdumb + never", "rdumb + periodic(every_batches=2)"]
