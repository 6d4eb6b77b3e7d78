"""Our methods against recorded outputs of the official implementations, logit by logit.

The traces lie beside the repository (`shared/golden`) and are not shipped; without them these tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.adapted import AdaptedModel
from holdfast.blocks.norm import affine_parameters
from holdfast.methods import Method
from holdfast.models.cifar_resnet import CifarResNet
from holdfast.recipes import adapt

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
pytestmark = pytest.mark.skipif(not (GOLDEN / "traces").is_dir(), reason="the golden traces are not on this machine")

CIFAR_ETA = {"optimizer": "sgd", "lr": 5e-3, "momentum": 0.9, "redundancy_margin": 0.4}
ADAM = {"optimizer": "adam", "lr": 1e-3}

# trace -> (recipe, options): what the trace's JSON says, in our words
TRACES: dict[str, tuple[str, dict[str, Any]]] = {
    "source": ("source", {}),
    "bn": ("batch_norm", {}),
    "bn_tentnorm": ("batch_norm", {}),
    "bn_prior_n16": ("batch_norm", {"prior_samples": 16}),
    "bn_prior_n256": ("batch_norm", {"prior_samples": 256}),
    "bn_alpha": ("batch_norm", {"source_share": 0.9}),
    "bn_cumulative": ("batch_norm", {"cumulative": True}),
    "tent": ("tent", ADAM),
    "tent_aetta": ("tent", ADAM),
    "tent_sgd": ("tent", {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9}),
    "tent_episodic": ("tent", {**ADAM, "steps": 2, "recovery": "episodic"}),
    "eta": ("eta", CIFAR_ETA),
    "eta_adam": ("eta", {**ADAM, "redundancy_margin": 0.4}),
    "eata_official": ("eata", {**CIFAR_ETA, "fisher_weight": 1.0}),
    "eata_aetta": ("eata", {**CIFAR_ETA, "fisher_weight": 1.0}),
    "eata_official_beta2000": ("eata", {**CIFAR_ETA, "fisher_weight": 2000.0}),
    "eata_rdumb": ("eata", {**CIFAR_ETA, "fisher_weight": 2000.0}),
    "eata_adam": ("eata", {**ADAM, "redundancy_margin": 0.4, "fisher_weight": 1.0}),
    "rdumb": ("rdumb", {}),
    "rdumb_t6": ("rdumb", {"every_batches": 6}),
    "rdumb_adam_t6": ("rdumb", {**ADAM, "redundancy_margin": 0.4, "every_batches": 6}),
}


@pytest.fixture(scope="module")
def network() -> CifarResNet:
    return CifarResNet.from_file(GOLDEN / "resnet20_cifar10.safetensors")


@pytest.fixture(scope="module")
def streams() -> dict[str, torch.Tensor]:
    with np.load(GOLDEN / "stream.npz") as file:
        # Contiguous, as the traces were recorded: channels-last kernels sum in another order (2e-4 in a logit).
        images = {name: torch.from_numpy(file[f"{name}_x"]).permute(0, 3, 1, 2) for name in ("iid", "cor")}
        return {name: tensor.contiguous().float() / 255 for name, tensor in images.items()}


# The same code path as another trace: run, but not by default.
TWINS = {"bn_tentnorm", "tent_aetta", "eta_adam", "eata_aetta", "eata_rdumb", "eata_adam", "rdumb"}


@pytest.mark.parametrize("stream", ["iid", "cor"])
@pytest.mark.parametrize(
    "trace", [pytest.param(name, marks=pytest.mark.slow if name in TWINS else ()) for name in TRACES]
)
def test_logits_and_affine_parameters_match(
    trace: str, stream: str, network: CifarResNet, streams: dict[str, torch.Tensor]
) -> None:
    recipe, options = TRACES[trace]
    facts = json.loads((GOLDEN / "traces" / f"{trace}.json").read_text())
    source = streams["iid"][:256].split(64) if recipe == "eata" else None

    def run(inputs: torch.Tensor) -> tuple[AdaptedModel, np.ndarray]:
        model = adapt(network, recipe, source=source, **options)
        return model, torch.cat([model(batch) for batch in inputs.split(64)]).numpy()

    model, logits = run(streams[stream])
    with np.load(GOLDEN / "traces" / f"{trace}.npz") as file:
        expected = {name: file[name] for name in file.files}
    difference = np.abs(logits - expected[f"{stream}_logits"])
    if (start := difference[: 5 * 64].max()) > 1e-4:
        # Adam and hard filters carry a last-bit difference of another CPU's kernels that far, and so does input noise
        # of the same size: the bound is five times what one draw of it does, the rule behind `suggested_atol`.
        first = streams[stream][: 5 * 64]
        noise = 2e-7 * torch.randn(first.shape, generator=torch.Generator().manual_seed(0))
        assert start <= 5 * np.abs(run(first + noise)[1] - logits[: 5 * 64]).max()
    assert difference.max() <= facts["suggested_atol"]
    affine = torch.cat([parameter.detach().flatten() for parameter in affine_parameters(model.method)]).numpy()
    assert np.abs(affine - expected.get(f"{stream}_affine", affine)).max() <= facts["suggested_atol"] / 10
    if "fisher" in expected:
        assert_fisher_equal(model.method, expected["fisher"])


def assert_fisher_equal(method: Method, expected: np.ndarray) -> None:
    fisher = method.fisher
    assert isinstance(fisher, torch.Tensor)
    # In double precision it lies 7e-4 from the recorded vector and 9e-4 from ours: this is rounding.
    assert np.linalg.norm(fisher.numpy() - expected) <= 5e-3 * np.linalg.norm(expected)
