"""SAR trains on reliable samples at the worst nearby weights, below the top layers; its recipe resets."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.frozen_layers import TOP_LAYERS, affine_parameters_except
from holdfast.blocks.losses import entropy
from holdfast.methods.sar import Sar
from holdfast.model.adapt import adapt
from holdfast.models.cifar_resnet import CifarResNet
from holdfast.models.tiny import tiny_resnet
from holdfast.recovery.loss_collapse import LossCollapse

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
INPUTS = torch.rand(16, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def margin_that_halves(inputs: Tensor, norm: str = "batch") -> float:
    """Return the margin above which half of the samples are left out."""
    return float(entropy(adapt(tiny_resnet(norm), "batch_norm")(inputs)).median()) / math.log(10)


# In the other direction, downhill, more samples become reliable: they must stay out.
@pytest.mark.parametrize("radius", [0.02, -0.1])
def test_a_step_climbs_and_uses_the_gradient_from_there(radius: float) -> None:
    margin = margin_that_halves(INPUTS)
    model = adapt(tiny_resnet(), "sar", entropy_margin=margin, lr=0.1, momentum=0.0, radius=radius, recovery="never")
    twin = adapt(tiny_resnet(), "sar", entropy_margin=margin, recovery="never").method
    source = [weights.detach().clone() for weights in twin.trained]

    uncertainty = entropy(twin.predict(INPUTS))
    reliable = uncertainty < margin * math.log(10)
    assert 0 < reliable.sum() < len(INPUTS)
    gradients = torch.autograd.grad(uncertainty[reliable].mean(), twin.trained)
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    with torch.no_grad():
        for weights, gradient in zip(twin.trained, gradients, strict=True):
            weights += radius * gradient / norm
    uncertainty = entropy(twin.predict(INPUTS))
    reliable_there = uncertainty < margin * math.log(10)
    assert (reliable & ~reliable_there).any() if radius > 0 else (reliable_there & ~reliable).any()
    loss = uncertainty[reliable & reliable_there].mean()
    gradients = torch.autograd.grad(loss, twin.trained)

    step = model.step(INPUTS)
    assert step.loss == pytest.approx(float(loss.detach()), rel=1e-5)
    assert (step.forwards, step.backwards) == (2.0, 2.0)
    for weights, before, gradient in zip(model.method.trained, source, gradients, strict=True):
        torch.testing.assert_close(weights.detach(), before - 0.1 * gradient, rtol=1e-4, atol=1e-6)


def test_the_prediction_is_that_of_the_first_pass() -> None:
    model = adapt(tiny_resnet(), "sar", entropy_margin=1.0, lr=0.1)
    assert torch.equal(model(INPUTS), adapt(tiny_resnet(), "batch_norm")(INPUTS))


def test_nothing_reliable_means_no_second_pass_and_no_move_by_momentum() -> None:
    model = adapt(tiny_resnet(), "sar", entropy_margin=1.0, lr=0.1, recovery="never")
    assert isinstance(model.method, Sar)
    assert model.step(INPUTS).loss is not None
    before = [weights.detach().clone() for weights in model.method.trained]
    model.method.max_entropy = 0.0
    step = model.step(INPUTS)
    assert (step.loss, step.forwards, step.backwards) == (None, 1.0, 0.0)
    assert all(torch.equal(weights, old) for weights, old in zip(model.method.trained, before, strict=True))


@pytest.mark.parametrize(
    ("name", "frozen"),
    [
        ("bn1", False),
        ("layer3.1.bn2", False),
        ("layer4.0.bn1", True),
        ("blocks.1.norm1", False),
        ("blocks.8.norm2", False),
        ("blocks.9.norm1", True),
        ("blocks.10.norm1", True),
        ("blocks.11.norm2", True),
        ("norm", True),
        ("encoder.norm.0", True),
        ("encoder.norm", False),
        ("layers.3.norm1", False),
    ],
)
def test_the_official_rule_freezes_top_layers_by_name(name: str, frozen: bool) -> None:
    network = nn.ModuleDict({"stem": nn.LayerNorm(2)})
    inner: nn.ModuleDict = network
    *parents, last = name.split(".")
    for part in parents:
        inner[part] = nn.ModuleDict()
        inner = inner[part]  # type: ignore[assignment]
    inner[last] = nn.LayerNorm(3)
    sizes = {len(weights) for weights in affine_parameters_except(network, TOP_LAYERS)}
    assert sizes == ({2} if frozen else {2, 3})


def test_frozen_layers_take_no_gradient_and_still_use_the_batch() -> None:
    model = adapt(tiny_resnet(), "sar", frozen_layers=r"stages\.1", entropy_margin=1.0)
    model(INPUTS)
    named = dict(model.method.model.module.named_parameters())
    frozen = {name for name in named if name.startswith("stages.1")}
    assert all(named[name].grad is None and not named[name].requires_grad for name in frozen)
    assert named["stages.0.0.norm1.weight"].grad is not None
    assert torch.equal(
        adapt(tiny_resnet(), "sar", frozen_layers=r"stages\.1")(INPUTS), adapt(tiny_resnet(), "batch_norm")(INPUTS)
    )


def test_a_pattern_that_freezes_everything_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no normalisation layer to train"):
        adapt(tiny_resnet(), "sar", frozen_layers="norm|shortcut")


@pytest.mark.parametrize("keep", [False, True])
def test_momentum_goes_back_with_a_reset_unless_it_is_kept(keep: bool) -> None:
    model = adapt(tiny_resnet(), "sar", entropy_margin=1.0, lr=0.1, keep_momentum=keep)
    for _ in range(2):
        model(INPUTS)
    model.method.reset()
    assert any(model.method.get_extra_state()["optimizer"].values()) == keep
    fresh = adapt(tiny_resnet(), "sar", entropy_margin=1.0, lr=0.1)
    assert torch.equal(model(INPUTS), fresh(INPUTS))
    assert torch.equal(model(INPUTS), fresh(INPUTS)) != keep


def test_the_recipe_joins_the_method_with_its_recovery() -> None:
    model = adapt(tiny_resnet(), "sar", entropy_margin=1.0, reset_threshold=10.0)
    assert isinstance(model.recovery, LossCollapse)
    assert "below 10" in (model.step(INPUTS).recovered or "")
    assert all(
        torch.equal(weights, source)
        for weights, source in zip(model.method.trained, model.method.source_weights(), strict=True)
    )


@pytest.mark.slow
@pytest.mark.skipif(not (GOLDEN / "traces").is_dir(), reason="there are no golden traces on this machine")
@pytest.mark.parametrize(("trace", "keep_average"), [("sar_official_lr1e-3", True), ("sar_doebler", False)])
def test_resets_come_at_the_recorded_batches(trace: str, keep_average: bool) -> None:
    with np.load(GOLDEN / "stream.npz") as file:
        inputs = torch.from_numpy(file["iid_x"]).permute(0, 3, 1, 2).contiguous().float() / 255
    with np.load(GOLDEN / "traces" / f"{trace}.npz") as file:
        recorded = file["iid_reset"]
    network = CifarResNet.from_file(GOLDEN / "resnet20_cifar10.safetensors")
    model = adapt(network, "sar", lr=1e-3, keep_momentum=True, keep_average=keep_average)
    resets = [model.step(batch).recovered is not None for batch in inputs.split(64)]
    assert resets == (recorded == 1).tolist()
