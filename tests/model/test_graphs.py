"""The default outside PyTorch: the step as a graph of tensors, in torch.export and in ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models import load
from holdfast.models.tiny import tiny_resnet

SIZES = (8, 1, 16, 80, 3, 1, 1, 64)  # the fourth is larger than the window


def batches(shape: tuple[int, ...], sizes: tuple[int, ...] = SIZES) -> list[Tensor]:
    """Return noise of growing brightness, with a constant input in the third batch."""
    generator = torch.Generator().manual_seed(1)
    made = [
        torch.rand(size, *shape, generator=generator) * 0.5 + 0.05 * (number % 8) for number, size in enumerate(sizes)
    ]
    made[2][1] = 0.5
    return made


def adapting(network: nn.Module, shape: tuple[int, ...], **options: Any) -> AdaptedModel:
    generator = torch.Generator().manual_seed(0)
    return adapt(network, source=[torch.rand(32, *shape, generator=generator) for _ in range(4)], **options)


def largest_gap(model: AdaptedModel, step: Any, stream: list[Tensor]) -> float:
    """Return how far the probabilities of a graph are from those of the model, at most."""
    return max(float((model(batch).softmax(1) - step(batch).softmax(1)).abs().max()) for batch in stream)


class Stepping:
    """Calls a graph batch after batch, each time with the state that it returned before."""

    def __init__(self, call: Any, state: tuple[Tensor, ...]) -> None:
        self.call, self.state = call, state

    def __call__(self, batch: Tensor) -> Tensor:
        """Return the logits of a batch."""
        logits, *self.state = self.call(batch, *self.state)
        return logits


@pytest.mark.parametrize("network", [tiny_resnet, lambda: load("digits_vit"), lambda: tiny_resnet("group")])
@pytest.mark.parametrize("options", [{}, {"proportions": False}, {"window": 16}])
def test_a_graph_predicts_and_follows_as_the_model_does(network: Any, options: dict[str, Any]) -> None:
    model = adapting(network(), (3, 32, 32), **options)
    graph = model.export(adapting=True)
    assert largest_gap(model, Stepping(graph, graph.initial), batches((3, 32, 32))) < 1e-5


def test_a_graph_goes_on_from_the_state_of_the_model() -> None:
    model, (first, *rest) = adapting(tiny_resnet(), (3, 32, 32)), batches((3, 32, 32))
    model(first)
    graph = model.export(adapting=True)
    fresh = adapting(tiny_resnet(), (3, 32, 32)).export(adapting=True)
    assert not torch.equal(graph.initial.moments, fresh.initial.moments)
    assert largest_gap(model, Stepping(graph, graph.initial), rest) < 1e-5


def test_logits_that_are_not_finite_leave_the_state_and_are_those_of_the_source() -> None:
    model, (batch, *_) = adapting(tiny_resnet(), (3, 32, 32)), batches((3, 32, 32))
    graph = model.export(adapting=True)
    _, *state = graph(batch, *graph.initial)
    broken = batch.clone()
    broken[0] = torch.nan
    logits, *after = graph(broken, *state)
    assert all(torch.equal(new, old) for new, old in zip(after, state, strict=True))
    assert torch.equal(logits[1:], model.source(broken)[1:])


def test_a_frozen_default_predicts_as_a_paused_model() -> None:
    model, stream = adapting(tiny_resnet(), (3, 32, 32)), batches((3, 32, 32))
    for batch in stream[:4]:
        model(batch)
    frozen = model.export()
    before = model.digest()
    for batch in stream:
        assert torch.allclose(frozen(batch).softmax(1), model.predict(batch).logits.softmax(1), atol=1e-5)
    assert model.digest() == before


def test_without_source_samples_the_frozen_default_is_the_network_and_nothing_adapts() -> None:
    network, (batch, *_) = tiny_resnet().eval(), batches((3, 32, 32))
    model = adapt(network)
    assert torch.equal(model.export()(batch), network(batch))
    with pytest.raises(ValueError, match="pass source="):
        model.export(adapting=True)


@pytest.mark.slow
def test_a_program_of_torch_takes_any_batch_size() -> None:
    model = adapting(tiny_resnet(widths=(8,)), (3, 32, 32))
    program: Any = model.export(form="torch", adapting=True)
    step = Stepping(program.module(), model.export(adapting=True).initial)
    assert largest_gap(model, step, batches((3, 32, 32), (8, 16, 3, 80))) < 1e-5


@pytest.mark.parametrize(
    ("method", "options", "reason"),
    [
        ("tent", {"adapting": True}, "only 'blend' can"),
        ("blend", {"form": "onnx"}, "pass path="),
        ("blend", {"form": "tflite"}, "form must be 'module', 'torch' or 'onnx'"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_words(method: str, options: dict[str, Any], reason: str) -> None:
    model = adapt(tiny_resnet(), method, source=[torch.rand(8, 3, 32, 32)])
    with pytest.raises(ValueError, match=reason):
        model.export(**options)


def test_a_network_that_asks_for_values_is_refused_in_one_sentence(tmp_path: Path) -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            logits: Tensor = self.head(inputs)
            return logits if float(inputs.sum()) > 0 else -logits

    model = adapt(Asking(), "source", example=torch.rand(2, 4))
    with pytest.raises(ValueError, match=r"^torch cannot write this network as a graph \([^\n]*$"):
        model.export(form="onnx", path=tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits_resnet", "digits_vit", "keywords_amaut"])
def test_an_onnx_file_adapts_as_the_model_does(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    shape = (16_000,) if name == "keywords_amaut" else (3, 32, 32)
    model = adapting(load(name), shape)
    path = model.export(form="onnx", adapting=True, path=tmp_path / "network.onnx")
    assert capfd.readouterr() == ("", "")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # it warns of defaults that can be replaced
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [entry.name.removeprefix("next_") for entry in session.get_outputs()[1:]]
    state: dict[str, Any] = {}  # the file has the first one

    def step(batch: Tensor) -> Tensor:
        logits, *values = session.run(None, {"inputs": batch.numpy(), **state})
        state.update(zip(names, values, strict=True))
        return torch.from_numpy(np.asarray(logits))

    assert largest_gap(model, step, batches(shape, (*SIZES, *(8, 1, 16, 2) * 48))) < 1e-4  # 200 batches
