"""Ray and Slurm: the rows of a serial run, also when a node dies; without the package, a sentence that names it."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.benchmark import Job, Outcome, Progress, bench, parse_suite

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 16
samples: 160
seeds: [0, 1]
streams: [{name: continual, data: {name: digits, split: test}, corruptions: [contrast]}]
recipes: [source, {name: tent, lr: 0.01}]
"""


def jobs() -> list[Job]:
    return parse_suite(SUITE).jobs()


def rows(outcomes: list[Outcome]) -> dict[str, list[dict[str, Any]]]:
    by_job = {}
    for outcome in outcomes:
        assert outcome.error is None
        assert outcome.folder is not None
        lines = [json.loads(line) for line in (outcome.folder / "rows.jsonl").read_text().splitlines()]
        by_job[outcome.job.name] = [{key: row[key] for key in row if key != "step_seconds"} for row in lines]
    return by_job


@pytest.mark.parametrize(("executor", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_package_is_named(
    executor: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'pip install "holdfast\[{executor}\]"'):
        bench(jobs(), tmp_path, executor=executor)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'holdfast[ray]')"
)
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_node_has_the_rows_of_a_serial_run(tmp_path: Path) -> None:
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    seen: list[Progress] = []

    def lose_a_node(progress: Progress) -> None:
        seen.append(progress)
        if len(nodes) == 2 and not progress.finished:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    try:
        on_cluster = rows(bench(jobs(), tmp_path / "ray", executor="ray", progress=lose_a_node, checkpoint_seconds=0.0))
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert len(nodes) == 1
    assert {progress.job for progress in seen} == set(on_cluster)
    assert on_cluster == rows(bench(jobs(), tmp_path / "serial"))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("submitit") is None, reason="submitit is not installed (pip install 'holdfast[slurm]')"
)
@pytest.mark.filterwarnings("ignore")
def test_jobs_of_a_batch_system_have_the_rows_of_a_serial_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SLURM_CLUSTER", "local")
    monkeypatch.setenv("HOLDFAST_SLURM_LOGS", str(tmp_path / "logs"))
    monkeypatch.setenv("HOLDFAST_SLURM", "timeout_min=10")
    began = time.monotonic()
    on_slurm = rows(bench(jobs(), tmp_path / "slurm", executor="slurm"))
    assert time.monotonic() - began < 600
    assert on_slurm == rows(bench(jobs(), tmp_path / "serial"))
