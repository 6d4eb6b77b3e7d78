"""Engines run the frozen source faster: exactly by default, and otherwise as far off as the documentation says."""

from __future__ import annotations

import copy
import pickle
import shutil

import pytest
import torch
from torch import Tensor, nn

from holdfast import adapt, guard
from holdfast.methods.blend import Blend
from holdfast.models import Classifier, load, tiny_resnet
from holdfast.models.engines import EngineName, SourceEngine, folded

BATCH = torch.rand(16, 3, 32, 32, generator=torch.Generator().manual_seed(0))
OFF_BY = {"exact": 0.0, "folded": 1e-6, "bfloat16": 0.05}  # of the largest logit


def logits_by(name: EngineName, network: nn.Module) -> tuple[Tensor, Tensor]:
    classifier = Classifier(network.eval())
    with torch.no_grad():
        return SourceEngine(name)(classifier, BATCH), classifier(BATCH)


@pytest.mark.parametrize("name", OFF_BY)
@pytest.mark.parametrize("network", ["digits_resnet", "digits_vit"])
def test_logits_are_as_far_off_as_is_documented(name: EngineName, network: str) -> None:
    fast, exact = logits_by(name, load(network))
    assert fast.dtype == exact.dtype
    assert float((fast - exact).abs().max()) <= OFF_BY[name] * float(exact.abs().max())


def test_rounding_of_folded_weights_is_less_than_2e_7_on_average() -> None:
    fast, exact = logits_by("folded", load("digits_resnet"))
    assert float((fast - exact).abs().mean()) <= 2e-7 * float(exact.abs().max())


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # of inductor itself
@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler")
def test_a_compiled_source_differs_by_rounding_for_each_shape() -> None:
    classifier, engine = Classifier(load("digits_resnet").eval()), SourceEngine("compiled")
    for batch in (BATCH, BATCH[:5]):
        with torch.no_grad():
            fast, exact = engine(classifier, batch), classifier(batch)
        assert not torch.equal(fast, exact), "it was not compiled"
        assert float((fast - exact).abs().max()) <= OFF_BY["folded"] * float(exact.abs().max())


def test_folding_leaves_no_batch_norm_behind_a_convolution() -> None:
    network = folded(load("digits_resnet"), BATCH[:2])
    assert not [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]


class Twice(nn.Module):
    """Uses the output of a convolution with and without BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 5)
        nn.init.constant_(self.norm.weight, 3.0)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        maps = self.conv(inputs)
        logits: Tensor = self.fc((maps + self.norm(maps)).mean((2, 3)))
        return logits


def test_a_convolution_whose_output_is_used_elsewhere_too_is_not_folded() -> None:
    network = folded(Twice().eval(), BATCH[:2])
    assert isinstance(network.norm, nn.BatchNorm2d)
    fast, exact = logits_by("folded", Twice())
    torch.testing.assert_close(fast, exact)


@pytest.mark.parametrize("name", ["folded", "bfloat16"])
def test_blend_predicts_nearly_the_same_and_the_source_stays_exact(name: EngineName) -> None:
    network = load("digits_resnet").eval()
    exact, fast = (adapt(network, source=[BATCH], source_engine=engine) for engine in ("exact", name))
    torch.testing.assert_close(fast(BATCH).softmax(1), exact(BATCH).softmax(1), atol=OFF_BY[name], rtol=0)
    assert torch.equal(fast.source(BATCH), network(BATCH))
    assert fast.step(BATCH).forwards == exact.step(BATCH).forwards == 2
    for twin in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert isinstance(twin.method, Blend)
        assert twin.method.engine.name == name
        torch.testing.assert_close(twin.predict(BATCH).logits, fast.predict(BATCH).logits)


def test_the_guard_takes_it_and_methods_without_a_frozen_source_refuse_it() -> None:
    assert torch.isfinite(
        guard(tiny_resnet(), "tent", source=[BATCH], temperature=1.0, source_engine="folded")(BATCH)
    ).all()
    with pytest.raises(ValueError, match="'tent' predicts with no frozen source"):
        adapt(tiny_resnet(), "tent", source_engine="folded")
    with pytest.raises(ValueError, match="source_engine must be one of exact, folded, bfloat16, compiled, got 'fast'"):
        adapt(tiny_resnet(), source=[BATCH], source_engine="fast")  # type: ignore[arg-type]
