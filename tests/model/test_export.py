"""Export: what depends on the batch and what does not, for every method, in PyTorch, torch.export and ONNX."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.norm import NormLayer
from holdfast.methods import METHODS
from holdfast.methods._proof import WrappingError
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet


@pytest.fixture
def batches() -> list[Tensor]:
    return list(torch.rand(24, 3, 32, 32, generator=torch.Generator().manual_seed(0)).split(8))


def adapted(method: str, batches: list[Tensor], norm: str = "batch") -> AdaptedModel:
    source = batches[:1] if METHODS[method].needs_source else None
    model = adapt(tiny_resnet(norm, widths=(8,)), method, source=source)  # type: ignore[arg-type]
    for batch in batches:
        model(batch)
    return model


def by_itself(module: nn.Module, batch: Tensor) -> Tensor:
    """Return predictions of samples that come one at a time."""
    return torch.cat([module(sample[None]) for sample in batch])


@pytest.mark.parametrize("method", METHODS.names())
def test_frozen_statistics_make_every_sample_independent_or_are_refused(method: str, batches: list[Tensor]) -> None:
    model = adapted(method, batches)
    if model.method.predicts_jointly:
        with pytest.raises(ValueError, match=r"predicts the samples of a batch jointly.*statistics='batch'"):
            model.export(statistics="frozen", inputs=batches[-1])
        return
    exported = model.export(statistics="frozen", inputs=batches[-1])
    together = exported(batches[0])
    assert torch.allclose(by_itself(exported, batches[0]), together, atol=1e-4 * float(together.abs().max()))
    expected = model.predict(batches[-1]).logits
    assert torch.allclose(exported(batches[-1]), expected, atol=1e-4 * float(expected.abs().max()))


def test_batch_statistics_stay_those_of_the_batch(batches: list[Tensor]) -> None:
    model = adapted("tent", batches)
    exported = model.export()
    assert torch.equal(exported(batches[0]), model.predict(batches[0]).logits)
    assert not torch.allclose(by_itself(exported, batches[0]), exported(batches[0]), atol=1e-2)


def test_a_frozen_module_is_made_of_torch_alone(batches: list[Tensor]) -> None:
    exported = adapted("tent", batches).export(statistics="frozen", inputs=batches[0])
    assert not any(isinstance(part, NormLayer) for part in exported.modules())
    assert not any(parameter.requires_grad for parameter in exported.parameters())


def test_stored_statistics_need_no_inputs(batches: list[Tensor]) -> None:
    exported = adapted("robust_bn", batches).export(statistics="frozen")
    assert torch.allclose(by_itself(exported, batches[0]), exported(batches[0]), atol=1e-5)
    with pytest.raises(ValueError, match="stores none; pass inputs="):
        adapted("tent", batches).export(statistics="frozen")
    with pytest.raises(ValueError, match="must be 'batch' or 'frozen', got 'running'"):
        adapted("tent", batches).export(statistics="running")  # type: ignore[arg-type]


def test_an_export_that_predicts_otherwise_is_refused(batches: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapted("tent", batches)
    monkeypatch.setattr(model.method, "export", lambda: tiny_resnet(seed=1))
    with pytest.raises(WrappingError, match="differ by up to"):
        model.export()


@pytest.mark.parametrize("statistics", ["batch", "frozen"])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_torch_export_with_any_batch_size(norm: str, statistics: str, batches: list[Tensor]) -> None:
    exported = adapted("tent", batches, norm).export(statistics=statistics, inputs=batches[0])  # type: ignore[arg-type]
    sizes = {"inputs": {0: torch.export.Dim("batch", min=2, max=64)}}
    program = torch.export.export(exported, (batches[0],), dynamic_shapes=sizes).module()
    for batch in (batches[1], batches[1][:3]):
        assert torch.allclose(program(batch), exported(batch), atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("statistics", ["batch", "frozen"])
def test_onnx(statistics: str, batches: list[Tensor], tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="torch.onnx needs it: pip install onnx onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    exported = adapted("tent", batches).export(statistics=statistics, inputs=batches[0])  # type: ignore[arg-type]
    sizes = {"inputs": {0: torch.export.Dim("batch", min=2, max=64)}}
    path = tmp_path / "network.onnx"
    torch.onnx.export(exported, (batches[0],), path, dynamo=True, dynamic_shapes=sizes, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (batches[1], batches[1][:3]):
        (logits,) = session.run(None, {session.get_inputs()[0].name: batch.numpy()})
        assert torch.allclose(torch.from_numpy(logits), exported(batch), atol=1e-4)
