"""Groups: recipes of one stream share each rendered batch, and have the rows that each has alone."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from threadpoolctl import threadpool_info
from torch import nn

from holdfast.benchmark import Job, Progress, bench, parse_suite, run
from holdfast.benchmark.forecast import forecast
from holdfast.benchmark.groups import groups_of
from holdfast.benchmark.prefetch import Prefetch
from holdfast.data import Digits
from holdfast.model.adapted import AdaptedModel
from holdfast.models import MODELS
from holdfast.streams import Stream, continual

SUITE = """\
name: small
models: [test_small]
batch_size: 16
samples: 88
streams: [{name: continual, data: {name: digits, split: test}, corruptions: [contrast, fog], samples_per_domain: 44}]
recipes: [source, {name: tent, lr: 0.1}, {name: rdumb, every_batches: 2}]
"""


class KillError(Exception):
    pass


@pytest.fixture(autouse=True)
def small_network() -> Any:
    @MODELS.register("test_small")
    def small() -> nn.Module:
        """A network that costs nothing."""
        network = nn.Sequential(
            nn.Conv2d(3, 10, 3, stride=4), nn.BatchNorm2d(10), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        for index, parameter in enumerate(network.parameters()):
            nn.init.constant_(parameter, 0.1 * (index + 1)) if parameter.dim() < 2 else nn.init.orthogonal_(
                parameter, generator=_generator()
            )
        return network

    yield
    MODELS.discard("test_small")


def _generator() -> Any:
    import torch

    return torch.Generator().manual_seed(0)


def rows(folder: Path | None) -> list[dict[str, Any]]:
    assert folder is not None
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "step_seconds"} for row in lines]


@pytest.fixture
def jobs() -> list[Job]:
    return parse_suite(SUITE).jobs()


@pytest.fixture
def alone(jobs: list[Job], tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    return {job.name: rows(run(job, tmp_path / "alone")) for job in jobs}


def test_a_group_renders_each_batch_once_and_has_the_rows_of_single_runs(
    jobs: list[Job], alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, spans = Stream.read, []

    def counted(stream: Stream, start: int, stop: int) -> Any:
        spans.append((start, stop))
        return read(stream, start, stop)

    monkeypatch.setattr(Stream, "read", counted)
    monkeypatch.setattr("holdfast.benchmark.running.write_strip", lambda *_: None)  # which renders a few samples
    outcomes = bench(jobs, tmp_path / "group")
    assert len(spans) == len(set(spans)) == 6
    assert {outcome.job.name: rows(outcome.folder) for outcome in outcomes} == alone
    assert all(0 < (outcome.rendering_share or 0) < 1 for outcome in outcomes)


def test_a_killed_group_resumes_every_member_at_its_own_place(
    jobs: list[Job], alone: dict[str, Any], tmp_path: Path
) -> None:
    """States are saved by one member after the other, so a kill leaves them at different places."""
    for calls in (2, 4, 5):  # in the middle of a batch of the group
        left = iter(range(calls))

        def kill(_: Progress, left: Any = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt  # not an error of a member: it ends the group

        with pytest.raises(KeyboardInterrupt):
            bench(jobs, tmp_path / "group", checkpoint_seconds=0.0, progress=kill)
    outcomes = bench(jobs, tmp_path / "group")
    assert {outcome.job.name: rows(outcome.folder) for outcome in outcomes} == alone
    assert strips(tmp_path / "group") == strips(tmp_path / "alone")


def strips(runs: Path) -> dict[str, bytes]:
    """Return the strips of a suite; all recipes share one."""
    files = {path.name: path.read_bytes() for path in (runs / "small" / "strips").iterdir()}
    assert len(files) == 1
    return files


def test_a_member_that_fails_does_not_stop_the_others(
    jobs: list[Job], alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, seen = AdaptedModel.step, []

    def fails(model: AdaptedModel, inputs: Any) -> Any:
        seen.extend([inputs] if model.recipe["name"] == "tent" else [])
        if model.recipe["name"] == "tent" and len(seen) == 3:
            raise ZeroDivisionError("in the third batch")
        return step(model, inputs)

    monkeypatch.setattr(AdaptedModel, "step", fails)
    outcomes = {outcome.job.recipe.name: outcome for outcome in bench(jobs, tmp_path / "group")}
    assert outcomes["tent"].error == "ZeroDivisionError: in the third batch"
    monkeypatch.undo()
    assert rows(outcomes["source"].folder) == alone[outcomes["source"].job.name]
    again = {outcome.job.name: rows(outcome.folder) for outcome in bench(jobs, tmp_path / "group")}
    assert again == alone


def test_a_member_that_changes_its_inputs_leaves_the_others_alone(
    jobs: list[Job], alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = AdaptedModel.step

    def step_in_place(model: AdaptedModel, inputs: Any) -> Any:
        taken = step(model, inputs)
        inputs.zero_()
        return taken

    monkeypatch.setattr(AdaptedModel, "step", step_in_place)
    outcomes = bench(jobs, tmp_path / "group")
    assert {outcome.job.name: rows(outcome.folder) for outcome in outcomes} == alone


def test_groups_are_of_one_stream_and_fill_all_workers(jobs: list[Job]) -> None:
    two = parse_suite(SUITE + "seeds: [0, 1]\n").jobs()
    assert [len(group) for group in groups_of(two)] == [3, 3]
    assert [len(group) for group in groups_of(two, at_most=2)] == [2, 1, 2, 1]
    assert [len(group) for group in groups_of(two, at_least=3)] == [1, 2, 3]
    assert [len(group) for group in groups_of(two, at_least=9)] == [1] * 6
    offline = parse_suite(SUITE + "protocol: offline-fixed\n").jobs()
    assert [len(group) for group in groups_of(offline)] == [1, 1, 1]
    with pytest.raises(ValueError, match="together must be at least 1, got 0"):
        groups_of(jobs, at_most=0)


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_run_computes_on_the_threads_of_its_protocol(tmp_path: Path) -> None:
    before, seen = blas_threads(), []
    jobs = parse_suite(SUITE).jobs()[:1]
    bench(jobs, tmp_path, progress=lambda _: seen.append(blas_threads()))
    assert seen[0] == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_batches_are_the_same_for_any_number_of_render_workers(workers: int) -> None:
    stream = continual(Digits("test"), corruptions=["gaussian_noise", "fog"], samples_per_domain=20, seed=3)
    with Prefetch(stream, workers) as prefetch:
        prefetched = list(prefetch.batches(stream.spans(0, None, 8)))
        again = list(prefetch.batches(stream.spans(20, 40, 8)))  # the workers are still there
        if pool := vars(prefetch)["_pool"]:
            assert pool.submit(blas_threads).result() == {1}
    expected = list(stream.starting_at(batch_size=8, stored=True))
    for batch, other in zip([*prefetched, *again], [*expected, *expected[3:]], strict=True):
        assert (batch.inputs == other.inputs).all()
        assert batch.inputs.dtype == other.inputs.dtype
        assert (batch.position, batch.domains, batch.labels.tolist()) == (
            other.position,
            other.domains,
            other.labels.tolist(),
        )
    assert prefetch.waited > 0


def test_render_workers_are_chosen_by_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = continual(Digits("test"), corruptions=["contrast"], samples_per_domain=64)
    asked = []
    monkeypatch.setattr(
        "holdfast.benchmark.prefetch.workers_for", lambda *given: asked.append(given) or 0
    )  # renders here
    prefetch = Prefetch(stream, None, cores=4)
    assert len(list(prefetch.batches(stream.spans(0, None, 8), count=8))) == 8
    ((render_seconds, step_seconds, left, cores),) = asked
    assert (left, cores, prefetch.workers) == (5, 4, 0)
    assert render_seconds > step_seconds >= 0


def test_a_forecast_measures_each_recipe(jobs: list[Job]) -> None:
    costs = forecast(jobs)
    assert [(cost.recipe, cost.jobs, cost.error) for cost in costs] == [(job.recipe.label, 1, "") for job in jobs]
    for cost in costs:
        assert cost.hours > 0
        assert cost.rendering_hours > 1e-7  # rendered again, not kept from another recipe
        assert cost.core_hours == pytest.approx(cost.hours + cost.rendering_hours)
        assert cost.gpu_hours == 0
        assert cost.disk_mb == pytest.approx(6 * 600 / 1e6)
        assert cost.bottleneck == ("rendering" if cost.rendering_hours > cost.hours else "the network")


def test_a_forecast_leaves_out_the_first_batch_and_shares_the_rendering(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    times = []
    for render, step in ((100.0, 200.0), (2.0, 5.0), (3.0, 6.0), (4.0, 7.0)):  # seconds of each measured batch
        times += [now, now + render, now + render + step]
        now = times[-1]
    clock = cycle(times)
    monkeypatch.setattr("holdfast.benchmark.forecast.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    for cost in forecast(jobs):  # each has 6 batches, and 3 recipes share their rendering
        assert cost.hours == pytest.approx(5 * 6 / 3600)  # by the fastest: other work on the machine only adds
        assert cost.rendering_hours == pytest.approx(2 * 6 / 3 / 3600)


def test_a_forecast_of_one_batch_is_not_nothing(jobs: list[Job]) -> None:
    (cost,) = forecast([replace(jobs[0], samples=16)])
    assert cost.hours > 0
    assert cost.disk_mb == pytest.approx(600 / 1e6)
