"""Building: each part of a job is built once, and a suite accepts exactly what its builders accept."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn

from holdfast.benchmark import EXECUTORS, Executor, Job, Progress, SuiteError, bench, load_suite, parse_suite
from holdfast.benchmark.building import GIVEN_TO_STREAMS, build
from holdfast.data import Digits
from holdfast.data.imagenet_classes import IMAGENET_R, imagenet_wnids
from holdfast.data.tensors import as_inputs
from holdfast.model.adapted import AdaptedModel
from holdfast.models import MODELS, digits_resnet
from holdfast.options.spec import Spec
from holdfast.recipes import resolve
from holdfast.registry import parameters_of
from holdfast.streams import STREAMS

SUITE = """\
name: small
models: [digits_resnet]
batch_size: 16
streams:
  - {name: continual, data: digits, corruptions: [contrast], samples_per_domain: 40}
recipes: [{name: tent, lr: 1.0e-4}]
"""


def test_the_network_of_a_calibrated_stream_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    built = []

    @MODELS.register("test_counted")
    def counted() -> nn.Module:
        """A network that counts how often it is built."""
        built.append(1)
        return digits_resnet()

    ccc = "{name: ccc, data: digits, images_per_step: 4, pairs: [[gaussian_noise, contrast]], pictures: 12}"
    text = SUITE.replace("digits_resnet", "test_counted").replace(
        "{name: continual, data: digits, corruptions: [contrast], samples_per_domain: 40}", ccc
    )
    try:
        build(parse_suite(text).jobs()[0])
    finally:
        MODELS.discard("test_counted")
    assert len(built) == 1


def test_source_data_are_drawn_from_the_whole_set_and_anew_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[torch.Tensor] = []
    monkeypatch.setattr(AdaptedModel, "fit_source", lambda _, batches: shown.append(torch.cat(list(batches))))
    source = "source: {name: digits, split: train, samples: 12}\nseeds: [0, 1]\n"
    for job in parse_suite(SUITE.replace("tent", "eata") + source).jobs():
        build(job)
    whole = as_inputs(Digits("train").images).flatten(1)
    drawn = [(part.flatten(1)[:, None] == whole).all(2).nonzero()[:, 1].tolist() for part in shown]
    assert [len(rows) for rows in drawn] == [12, 12]
    assert all(rows == sorted(rows) and rows[-1] > len(whole) / 2 for rows in drawn)
    assert drawn[0] != drawn[1]


def test_a_recipe_is_resolved_once_for_suite_jobs_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(name: str, **options: Any) -> Any:
        calls.append(name)
        return resolve(name, **options)

    for module in ("schema", "job"):
        monkeypatch.setattr(f"holdfast.benchmark.{module}.resolve", counted)
    jobs = parse_suite(SUITE + "seeds: [0, 7]\nprotocol: [online, offline-fixed]\n").jobs()
    sent = [pickle.loads(pickle.dumps(job)) for job in jobs]
    assert [build(job).model.recipe["options"]["seed"] for job in sent] == [0, 7, 0, 7]
    assert calls == ["tent"]
    assert replace(jobs[1], recipe=Spec("eta")).resolved.name == "eta"


def test_a_job_survives_json_and_pickle_and_computes_its_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = load_suite("arena", scale="smoke").jobs()
    for job in jobs[::20]:
        assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
        assert pickle.loads(pickle.dumps(job)).name == job.name
    name = jobs[0].name
    monkeypatch.setattr(Job, "to_json", lambda _: pytest.fail("the name was computed a second time"))
    assert jobs[0].name == name


@pytest.mark.parametrize("name", STREAMS.names())
def test_a_suite_accepts_the_options_that_a_stream_takes_and_no_others(name: str) -> None:
    function: Any = STREAMS[name]
    accepted = set(parameters_of(function)) - GIVEN_TO_STREAMS
    needed = {option: _VALUES[option] for option in ("corruptions", "setting") if option in accepted}
    for option in accepted:
        if option in _VALUES:
            try:
                function(Digits(), **{**needed, option: _VALUES[option]})
            except ValueError:
                continue  # refused by value; an option that is not known would be a TypeError
    for given in ("seed", "calibrate", "options"):
        entry = {"name": name, "data": "digits", **needed, given: 0}
        text = SUITE.replace(
            "{name: continual, data: digits, corruptions: [contrast], samples_per_domain: 40}", json.dumps(entry)
        )
        with pytest.raises(SuiteError, match=f"has no option '{given}'"):
            parse_suite(text)


_VALUES = {
    "corruptions": ["contrast"],
    "setting": "cotta",
    "severity": 3,
    "samples_per_domain": 8,
    "order": "shuffled",
    "cycles": 1,
    "family": "224",
    "draws": "sample",
    "mode": "stationary",
    "samples": 16,
    "episodes": False,
}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("data: digits", "data: {name: digits, split: validate}", "must be 'train', 'validation' or 'test'"),
        ("lr: 1.0e-4", "seed: 3", "no option 'seed'"),
        ("lr: 1.0e-4", "recovery: adaptive, momentum: 0.5", "both the method 'tent' and the recovery 'adaptive'"),
        ("lr: 1.0e-4", "recovery_options: {every_batches: 3}", "recovery 'never' has no option 'every_batches'"),
        ("batch_size: 16", "source: {name: stream, split: train}", "source: stream has no option 'split'"),
        ("digits_resnet", "3", "3 has no name"),
        ("samples_per_domain: 40", "draws: samples", "must be 'sample' or 'position'"),
    ],
)
def test_a_suite_refuses_what_building_would_refuse(old: str, new: str, words: str) -> None:
    with pytest.raises(SuiteError, match=words):
        parse_suite(SUITE.replace(old, new))


def test_a_suite_gives_recoveries_options_of_their_own() -> None:
    text = SUITE.replace("lr: 1.0e-4", "recovery: adaptive, momentum: 0.8, recovery_options: {momentum: 0.5}")
    recipe = build(parse_suite(text).jobs()[0]).model.recipe
    assert (recipe["options"]["momentum"], recipe["recovery_options"]["momentum"]) == (0.8, 0.5)


@pytest.mark.parametrize(("given", "expected"), [("", 3), (", batches_per_epoch: 7", 7)])
def test_a_method_is_told_how_long_an_offline_epoch_is(given: str, expected: int) -> None:
    text = SUITE.replace("batch_size: 16", "batch_size: 16\nprotocol: offline-fixed\nepochs: 2")
    job = parse_suite(text.replace("{name: tent, lr: 1.0e-4}", f"{{name: conmix{given}}}")).jobs()[0]
    assert build(job).model.recipe["options"]["batches_per_epoch"] == expected
    online = parse_suite(SUITE.replace("{name: tent, lr: 1.0e-4}", "conmix")).jobs()[0]
    assert build(online).model.recipe["options"]["batches_per_epoch"] is None


@pytest.mark.parametrize("shares_memory", [True, False])
def test_an_executor_says_itself_whether_it_shares_memory(tmp_path: Path, shares_memory: bool) -> None:
    received = []

    def watched(work: Any, _items: Any, _workers: int) -> Any:
        received.append(work.work.keywords["progress"])
        return iter(())

    def tell(_progress: Progress) -> None:
        raise AssertionError

    EXECUTORS.register("test_watched")(Executor(watched, shares_memory))
    try:
        bench([], tmp_path, executor="test_watched", progress=tell)
    finally:
        EXECUTORS.discard("test_watched")
    assert (received == [tell]) is shares_memory


def test_recipes_of_one_stream_share_its_rendered_batches() -> None:
    first, second, *_ = load_suite("demo").jobs()
    assert first.recipe != second.recipe
    shared = build(first).stream
    streams = [shared, build(second, shared).stream]  # as in a group
    batches = [stream.render(0, 8) for stream in streams]
    assert streams[0] is streams[1]
    assert torch.equal(batches[0].inputs, batches[1].inputs)
    batches[0].inputs.zero_()  # one recipe cannot spoil another's inputs
    assert torch.equal(streams[1].render(0, 8).inputs, batches[1].inputs)
    other = build(replace(first, seed=first.seed + 1)).stream
    assert not torch.equal(other.render(0, 8).inputs, batches[1].inputs)


def test_a_network_of_imagenet_predicts_the_classes_of_the_data_only(tmp_path: Path) -> None:
    for index in (2, 988):
        path = tmp_path / "imagenet-r" / imagenet_wnids()[index] / "art_1.png"
        path.parent.mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(path)
    network = Spec(
        "imported", options={"target": "holdfast.models.tiny:tiny_resnet", "arguments": {"num_classes": 1000}}
    )
    data = Spec("imagenet_r", options={"folder": str(tmp_path / "imagenet-r"), "resize": None, "crop": 32})
    job = Job("one", network, Spec("continual", options={"corruptions": ["clean"]}), data, Spec("tent"))
    built = build(job)
    (batch,) = built.stream
    whole = network.build(MODELS)(batch.inputs)
    torch.testing.assert_close(built.model.source_network(batch.inputs), whole[:, list(IMAGENET_R)])
    assert built.model(batch.inputs).shape == (2, 200)
    assert sorted(batch.labels.tolist()) == [IMAGENET_R.index(2), IMAGENET_R.index(988)]
    with pytest.raises(ValueError, match=r"is for all of its classes, and imagenet_r has some of them"):
        build(replace(job, card="some.card"))
