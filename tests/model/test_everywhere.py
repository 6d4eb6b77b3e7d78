"""Where an adapted model is used: threads, half precision, parallel and compiled sources, copies and pickles."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn

from holdfast import adapt
from holdfast.estimators import ESTIMATORS
from holdfast.model.adapted import AdaptedModel
from holdfast.models.classifier import weights_digest
from holdfast.models.tiny import tiny_resnet
from holdfast.recipes import recipe_names
from holdfast.recovery import RECOVERIES

BATCHES = torch.rand(4, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def assert_like_the_plain_network(network: nn.Module) -> None:
    model, expected = adapt(network, "tent"), adapt(tiny_resnet(), "tent")
    assert model.weights == expected.weights
    for batch in BATCHES:
        assert torch.equal(model(batch), expected(batch))


def test_parallel_wrappers_are_removed() -> None:
    assert_like_the_plain_network(nn.DataParallel(tiny_resnet()))


@pytest.mark.usefixtures("process_group")
def test_distributed_wrappers_are_removed() -> None:
    network = nn.parallel.DistributedDataParallel(tiny_resnet())
    before = weights_digest(network)
    assert_like_the_plain_network(network)
    assert weights_digest(network) == before


def test_compiled_sources_are_adapted_layer_by_layer() -> None:
    assert_like_the_plain_network(torch.compile(tiny_resnet(), backend="eager"))  # type: ignore[arg-type]
    assert_like_the_plain_network(nn.DataParallel(torch.compile(tiny_resnet(), backend="eager")))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", recipe_names())
def test_copies_and_pickles_have_the_same_future_and_adapt_on_their_own(name: str) -> None:
    model = adapt(tiny_resnet(widths=(8,)), name, source=[BATCHES[0]], estimator="anchored")
    model(BATCHES[0])
    others: list[AdaptedModel] = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    expected = [model(batch) for batch in BATCHES[1:3]]
    for other in others:
        assert all(torch.equal(other(batch), logits) for batch, logits in zip(BATCHES[1:3], expected, strict=True))


def test_a_copy_taken_during_steps_of_another_thread_is_between_two_of_them() -> None:
    model = adapt(tiny_resnet(), "tent", lr=0.1)
    states = [weights_digest(model.method)]
    twin = copy.deepcopy(model)
    for batch in BATCHES.repeat(4, 1, 1, 1, 1):
        twin(batch)
        states.append(weights_digest(twin.method))

    def adapt_all() -> None:
        for batch in BATCHES.repeat(4, 1, 1, 1, 1):
            model(batch)

    thread = threading.Thread(target=adapt_all)
    thread.start()
    digests = [weights_digest(copy.deepcopy(model).method) for _ in range(12)]
    thread.join()
    assert set(digests) <= set(states)


@pytest.mark.parametrize("recovery", ["never", "regret"])
def test_concurrent_requests_are_all_served(recovery: str) -> None:
    model = adapt(tiny_resnet(), "tent", recovery=recovery)
    steps: list[object] = []

    def serve() -> None:
        for batch in BATCHES:
            steps.append(model.step(batch).skipped)

    threads = [threading.Thread(target=serve) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps == [None] * 24


def test_half_precision_follows_single_precision() -> None:
    half, single = adapt(tiny_resnet(), "robust_bn"), adapt(tiny_resnet(), "robust_bn")
    for batch in BATCHES:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = half(batch)
        assert logits.dtype == torch.float32
        assert torch.allclose(logits, single(batch), atol=0.05)


def test_the_mode_changes_nothing_and_adaptation_goes_on() -> None:
    model, twin = adapt(tiny_resnet(), "tent", lr=0.1), adapt(tiny_resnet(), "tent", lr=0.1)
    for batch in BATCHES:
        assert torch.equal(model.eval()(batch), twin.train()(batch))
    assert (model.training, twin.training) == (False, True)


HOLDOUT = [(BATCHES[0], torch.zeros(8, dtype=torch.long))]
PLACED: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in recipe_names() if name != "cotta"},
    "cotta": {"method": "cotta", "views": 1},
    **{f"estimator {name}": {"method": "tent", "estimator": name, "holdout": HOLDOUT} for name in ESTIMATORS},
    **{f"recovery {name}": {"method": "tent", "estimator": "anchored", "recovery": name} for name in RECOVERIES},
}


# The pretended device of tests/device refuses the same mistakes of every method; here a quarter is enough by default.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in recipe_names() and index % 4 else [])
        for index, name in enumerate(PLACED)
    ],
)
def test_every_tensor_is_made_on_the_device_of_the_model(name: str, tmp_path: Path) -> None:
    """With another default device, a tensor that is made without saying where does not mix with those of the model."""
    options = PLACED[name]
    model = adapt(tiny_resnet(widths=(8,)), source=[BATCHES[0]], **options)
    loaded = copy.deepcopy(model)
    with torch.device("meta"):
        for batch in BATCHES[:2]:
            assert model.step(batch).skipped is None
        model.save(tmp_path / "state")
        loaded.load(tmp_path / "state")
        assert torch.equal(loaded(BATCHES[3]), model(BATCHES[3]))
        model.reset()
        model.export()
