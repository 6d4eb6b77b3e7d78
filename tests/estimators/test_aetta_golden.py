"""AETTA and its baselines against numbers recorded from the official code.

A few batches are shipped beside this file; all of them lie beside the repository (`shared/golden`), where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.estimators import Observation
from holdfast.estimators._disagreement import measure_disagreement
from holdfast.estimators.aetta import Aetta
from holdfast.estimators.softmax_score import SoftmaxScore
from holdfast.model.adapt import adapt
from holdfast.models import CifarResNet, Classifier, tiny_resnet

Golden = Mapping[str, NDArray[Any]]

HERE = Path(__file__).parent
WHOLE = HERE.parents[2] / "shared" / "golden" / "aetta" / "aetta_golden.npz"
FILES = [
    HERE / "aetta_golden.npz",
    pytest.param(WHOLE, marks=pytest.mark.skipif(not WHOLE.exists(), reason="the whole file is not on this machine")),
]


@pytest.fixture(scope="module", params=FILES, ids=["shipped", "whole"])
def golden(request: pytest.FixtureRequest) -> Golden:
    with np.load(request.param, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def close(expected: float) -> Any:
    return pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_terms_of_the_error_are_the_recorded_ones(golden: Golden) -> None:
    for index in range(len(golden["step"])):
        terms = measure_disagreement(
            torch.from_numpy(golden["logits"][index]), torch.from_numpy(golden["drop_logits"][index])
        )
        assert terms.share == pytest.approx(golden["pdd"][index], abs=1e-12)
        assert terms.entropy == close(golden["e_avg"][index])
        assert terms.skew == close(golden["b"][index])
        assert terms.error == close(golden["clipped_error"][index])


@pytest.mark.parametrize("kind", ["recorded", "edge"])
def test_the_smoothed_accuracy_is_the_recorded_one(golden: Golden, kind: str) -> None:
    if kind == "edge":
        cases = [
            (golden[f"edge_{name}_logits"], golden[f"edge_{name}_drop_logits"], previous, percent)
            for name, previous, percent in zip(
                golden["edge_names"], golden["edge_prev_ema_error"], golden["edge_aetta_percent"], strict=True
            )
        ]
    else:
        arrays = (golden[name] for name in ("logits", "drop_logits", "prev_ema_error", "aetta_percent"))
        cases = list(zip(*arrays, strict=True))
    assert cases
    for logits, dropped, previous, percent in cases:
        assert estimate(torch.from_numpy(logits), torch.from_numpy(dropped), previous) == close(percent / 100)


def estimate(logits: Tensor, dropped: Tensor, previous: float) -> float:
    """Return the estimate of AETTA for given logits."""
    aetta = Aetta()
    aetta.error = None if np.isnan(previous) else float(previous)
    aetta.dropout.logits = lambda _: dropped  # type: ignore[method-assign]
    return aetta.estimate(Observation(torch.zeros(len(logits), 3, 8, 8), logits, Classifier(tiny_resnet()))).value


def test_total_collapse_looks_like_health_as_published(golden: Golden) -> None:
    index = list(golden["edge_names"]).index("total_collapse_no_disagreement")
    name = f"edge_{golden['edge_names'][index]}"
    terms = measure_disagreement(
        torch.from_numpy(golden[f"{name}_logits"]), torch.from_numpy(golden[f"{name}_drop_logits"])
    )
    assert terms.entropy < 0
    assert terms.error == 0


def test_the_softmax_score_is_the_recorded_one(golden: Golden) -> None:
    for logits, expected in zip(golden["logits"], golden["softmax_score"], strict=True):
        answer = torch.from_numpy(logits)
        seen = Observation(torch.zeros(len(answer), 3, 8, 8), answer, Classifier(tiny_resnet()))
        assert SoftmaxScore().estimate(seen).value == close(expected)


@pytest.mark.slow
def test_the_golden_network_itself_gives_the_recorded_estimates() -> None:
    """Healthy TENT: baselines exactly, and dropout, whose masks are our own, within its sampling error."""
    folder = HERE.parent / "conformance" / "golden"
    with np.load(HERE / "aetta_golden.npz") as file:
        expected = {name: file[name][:2] for name in ("logits", "pdd", "gde", "adv_perturb", "softmax_score")}
    with np.load(folder / "stream.npz") as file:
        inputs = torch.from_numpy(file["iid_x"]).permute(0, 3, 1, 2).contiguous().float() / 255
    network = CifarResNet.from_file(folder / "resnet20_cifar10.safetensors")
    estimators = ["aetta", "pdd", "gde", "adv_perturb", "softmax_score"]
    model = adapt(network, "tent", optimizer="adam", lr=1e-3, estimator=estimators)
    for index, batch in enumerate(inputs.split(64)[:2]):
        step = model.step(batch)
        np.testing.assert_allclose(step.logits, expected["logits"][index], atol=1e-4)
        assert step.estimates["gde"].value == expected["gde"][index]
        assert step.estimates["adv_perturb"].value == expected["adv_perturb"][index]
        assert step.estimates["softmax_score"].value == pytest.approx(expected["softmax_score"][index], abs=1e-5)
        assert 1 - step.estimates["pdd"].value == pytest.approx(expected["pdd"][index], abs=0.06)


def test_the_perturbation_is_the_recorded_one() -> None:
    folder = HERE.parent / "conformance" / "golden"
    with np.load(HERE / "aetta_golden.npz") as file:
        rises, lengths = np.unpackbits(file["adv_rises_first_batch"]).astype(bool), file["adv_l2"][0]
    with np.load(folder / "stream.npz") as file:
        inputs = torch.from_numpy(file["iid_x"][:64]).permute(0, 3, 1, 2).contiguous().float() / 255
    network = CifarResNet.from_file(folder / "resnet20_cifar10.safetensors")
    model = adapt(network, "source", estimator="adv_perturb")
    change = model.estimators["adv_perturb"].perturb(inputs) - inputs  # type: ignore[operator]
    assert ((change > 0).flatten().numpy() == rises).mean() > 0.995
    np.testing.assert_allclose(change.flatten(1).norm(dim=1), lengths, atol=1e-6)
