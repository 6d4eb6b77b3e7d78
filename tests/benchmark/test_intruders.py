"""Scripted intruders: what is shown besides the stream is predicted, adapted to and not scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.benchmark.bench import bench
from holdfast.benchmark.intruders import ScriptedIntruders, poisoned
from holdfast.benchmark.suite import parse_suite
from holdfast.records import Batch
from holdfast.report import read_runs

SUITE = """
name: intruded
models: [digits_resnet]
batch_size: 8
samples: 16
streams:
  - {name: continual, data: {name: digits, split: test}, severity: 3, corruptions: [contrast], samples_per_domain: 16}
recipes: [batch_norm]
"""


def test_poison_stays_within_reach_and_raises_the_probability_of_its_class() -> None:
    weights = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 4, bias=False))
    network.load_state_dict({"1.weight": weights})
    inputs = torch.rand(6, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    changed = poisoned(network, inputs, target=2, reach=0.1)
    assert (changed - inputs).abs().max() <= 0.1 + 1e-6
    assert changed.min() >= 0
    assert changed.max() <= 1
    before, after = (network(given).softmax(1)[:, 2] for given in (inputs, changed))
    assert (after > before).all()
    assert not changed.requires_grad


def test_a_small_share_of_a_small_batch_is_one_sample() -> None:
    batch = Batch(torch.rand(4, 3, 2, 2), np.zeros(4, np.int64), ("fog",) * 4, 0)
    script = ScriptedIntruders(kind="constant", share=0.01)
    assert torch.equal(script.inputs(batch, nn.Identity()), torch.full((1, 3, 2, 2), 0.5))


@pytest.mark.parametrize("kind", ["noise", "constant", "poison"])
@pytest.mark.parametrize("mixed", [False, True])
def test_intruders_change_the_prediction_of_batch_statistics_and_are_not_scored(
    tmp_path: Path, kind: Any, mixed: bool
) -> None:
    script = ScriptedIntruders(kind=kind, every_batches=2, share=0.5, mixed=mixed)
    alone = parse_suite(SUITE)
    intruded = parse_suite(SUITE, overrides={"streams.0.intruders": script.model_dump()})
    bench([*alone.jobs(), *intruded.jobs()], tmp_path)
    runs = {"intruders" in run.manifest.protocol: run.rows for run in read_runs(tmp_path / "intruded")}
    assert runs[True].size.tolist() == runs[False].size.tolist() == [8, 8]
    first, second = (runs[True].entropy == runs[False].entropy).tolist()
    assert first  # no intruders before the second batch
    assert second is not mixed  # in their own batch they do not move batch statistics


def test_mixed_intruders_leave_the_scores_of_the_source_as_they_were(tmp_path: Path) -> None:
    text, script = SUITE.replace("batch_norm", "source"), ScriptedIntruders(kind="noise", every_batches=1, mixed=True)
    intruded = parse_suite(text, overrides={"streams.0.intruders": script.model_dump()})
    bench([*parse_suite(text).jobs(), *intruded.jobs()], tmp_path)
    alone, beside = (run.rows for run in read_runs(tmp_path / "intruded"))
    assert alone.correct.tolist() == beside.correct.tolist()
    assert alone.entropy.tolist() == pytest.approx(beside.entropy.tolist())
