"""A scripted collapse: updates fail at a known time, for any method and after any resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.benchmark import Job, parse_suite, run

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 16
streams:
  - {name: continual, label: calm, data: digits, corruptions: [contrast], samples_per_domain: 80}
  - name: continual
    label: collapse
    data: digits
    corruptions: [contrast]
    samples_per_domain: 80
    collapse: {from_sample: 32, samples: 16, lr_factor: 1000}
recipes: [source, tent, sar, {name: tent, label: episodic, recovery: episodic}]
"""


def job(stream: str, recipe: str) -> Job:
    jobs = parse_suite(SUITE).jobs()
    return next(one for one in jobs if (one.stream.label, one.recipe.label) == (stream, recipe))


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "step_seconds"} for row in lines]


def test_up_to_the_onset_nothing_differs_and_after_it_the_model_has_collapsed(tmp_path: Path) -> None:
    calm, collapse = (rows(run(job(stream, "tent"), tmp_path)) for stream in ("calm", "collapse"))
    assert collapse[:3] == calm[:3]  # the update on the third batch goes wrong, and the fourth is answered with it
    assert collapse[3]["accuracy"] < 0.5 < calm[3]["accuracy"]
    manifest = json.loads((run(job("collapse", "tent"), tmp_path) / "manifest.json").read_text())
    assert manifest["protocol"]["collapse"] == {"from_sample": 32, "samples": 16, "lr_factor": 1000.0}
    assert "collapse" not in json.loads((run(job("calm", "tent"), tmp_path) / "manifest.json").read_text())["protocol"]


@pytest.mark.parametrize("recipe", ["source", "episodic"])
def test_source_and_episodic_reset_are_not_harmed(tmp_path: Path, recipe: str) -> None:
    calm, collapse = (rows(run(job(stream, recipe), tmp_path)) for stream in ("calm", "collapse"))
    assert [row["accuracy"] for row in collapse] == [row["accuracy"] for row in calm]


def test_a_run_resumed_during_the_collapse_continues_it(tmp_path: Path) -> None:
    whole = rows(run(job("collapse", "sar"), tmp_path / "whole"))

    def stop(progress: object) -> None:
        if getattr(progress, "samples", 0) == 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(job("collapse", "sar"), tmp_path / "torn", checkpoint_seconds=0.0, progress=stop)
    assert rows(run(job("collapse", "sar"), tmp_path / "torn")) == whole
