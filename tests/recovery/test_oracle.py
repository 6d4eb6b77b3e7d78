"""The oracle receives domains, and resets before the first batch of a new one."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from holdfast.benchmark import run
from holdfast.benchmark.suite import parse_suite
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet

BATCHES = torch.rand(5, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_it_resets_where_the_domain_changes() -> None:
    model, fresh = adapt(tiny_resnet(), "tent", recovery="oracle", lr=0.1), adapt(tiny_resnet(), "batch_norm")
    reasons, same = [], []
    for domain, batch in zip(["fog", "fog", "snow", "snow", "fog"], BATCHES, strict=True):
        model.enter_domain(domain)
        step = model.step(batch)
        reasons.append(step.recovered)
        same.append(torch.equal(step.logits, fresh(batch)))
    assert reasons == [None, None, "told that snow follows fog", None, "told that fog follows snow"]
    assert same == [True, False, True, False, True]


def test_nobody_else_listens() -> None:
    informed, uninformed = adapt(tiny_resnet(), "tent"), adapt(tiny_resnet(), "tent")
    for index, batch in enumerate(BATCHES):
        informed.enter_domain(str(index))
        assert torch.equal(informed(batch), uninformed(batch))


def test_a_benchmark_tells_it(tmp_path: Path) -> None:
    suite = parse_suite(
        """
        name: told
        models: [digits_resnet]
        streams: [{name: continual, data: digits, corruptions: [gaussian_noise, contrast], samples_per_domain: 48}]
        recipes: [{name: tent, recovery: oracle}]
        batch_size: 16
        """
    )
    (job,) = suite.jobs()
    rows = [json.loads(line) for line in (run(job, tmp_path) / "rows.jsonl").read_text().splitlines()]
    assert [index for index, row in enumerate(rows) if row["recovered"]] == [3]
