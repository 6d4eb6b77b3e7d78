"""Every option that the list of differences names exists, and changes the result of a tiny run."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast
from holdfast.audio import CLIPS
from holdfast.benchmark import load_suite
from holdfast.calibration import Calibration, calibration_of
from holdfast.corruptions.audio.dhauds import criterion
from holdfast.data import Dataset, Digits, InMemoryImages, crop_for
from holdfast.data.crops import CropName
from holdfast.data.tensors import as_inputs
from holdfast.estimators import ESTIMATORS
from holdfast.models import digits_resnet
from holdfast.models.tiny import tiny_amaut
from holdfast.report.paper_and_code import Difference, Other, differences
from holdfast.streams import STREAMS
from holdfast.streams.walks.difficulty import POOLS

COUNTS = {"CCC and RDumb": 20, "UniTTA": 19, "AETTA": 19, "DHAuDS": 26}  # known ones; more may be found
MATRICES = json.loads((Path(__file__).parents[1] / "streams" / "ccc_paths.json").read_text())["cases"]
OTHERS = [difference for difference in differences() if difference.other is not None]


def outcome(other: Other, *, changed: bool) -> Any:
    """Return the result of a tiny run, without or with the option."""
    given = {**other.given, **(other.set if changed else {})}
    name = other.instead if changed and other.instead else other.name
    if other.instead and changed:
        given = dict(other.set)
    runs = {
        "method": of_method,
        "recovery": of_recovery,
        "estimator": of_estimator,
        "calibration": of_calibration,
        "stream": of_stream,
    }
    if other.kind == "criterion":
        return of_criterion(name, other.data, given)
    if other.kind == "suite":
        return [job.to_json() for job in load_suite(name, dict(given), scale=other.scale).jobs()]
    return runs[other.kind](name, given)


def batches_for(name: str, number: int) -> torch.Tensor:
    """Return the same batches every time: clips of noise, or digits in two domains, bright and noisy."""
    rng = torch.Generator().manual_seed(1)
    if name == "dhauds":
        return 0.1 * torch.randn(number, 8, 1600, generator=rng)
    digits = as_inputs(Digits("test").inputs(np.arange(32 * number))).view(number, 32, 3, 32, 32)
    noisy = torch.arange(number).view(-1, 1, 1, 1, 1) % 2
    changed = digits + 0.4 * torch.randn(digits.shape, generator=rng) * noisy + 0.3 * (1 - noisy)
    return changed.clamp(0, 1)


def adapted(name: str, batches: torch.Tensor, options: dict[str, Any]) -> list[torch.Tensor]:
    network = tiny_amaut() if name == "dhauds" else digits_resnet()
    source = [batches[0]] if name == "eata" else None
    model = holdfast.adapt(network, name, source=source, example=batches[0][:2], **options)
    return [model.step(batch).logits.detach() for batch in batches]


def of_method(name: str, given: dict[str, Any]) -> torch.Tensor:
    options = dict(given)
    return torch.stack(adapted(name, batches_for(name, options.pop("batches", 4)), options))


def of_recovery(name: str, given: dict[str, Any]) -> torch.Tensor:
    options = {"lr": 0.01, **given}
    return torch.stack(adapted(options.pop("method", "tent"), batches_for("", 6), {**options, "recovery": name}))


def of_estimator(name: str, given: dict[str, Any]) -> list[float]:
    batches = batches_for("", 4)
    labels = torch.from_numpy(Digits("test").labels[:32])
    model = holdfast.adapt(
        digits_resnet(), "tent", lr=0.05, estimator=ESTIMATORS[name](**given), holdout=[(batches[0], labels)]
    )
    return [step.value for batch in batches for step in model.step(batch).estimates.values()]


def of_calibration(_: str, given: dict[str, Any]) -> str:
    matrices = {
        (first, second): np.array(MATRICES[number % len(MATRICES)]["matrix"])
        for number, (first, second) in enumerate(
            (a, b) for a in (*POOLS["easy"], "brightness") for b in (*POOLS["easy"], "brightness") if a != b
        )
    }
    return calibration_of(matrices, **given).to_json()


def of_stream(name: str, given: dict[str, Any]) -> list[Any]:
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    data = InMemoryImages(images, np.arange(40) % 10) if name == "unitta" else Digits("test")
    if name == "ccc":

        def calibrate(_: Dataset, *, crop: CropName = "auto", **__: Any) -> Calibration:
            matrices = {("fog", "snow"): np.array(MATRICES[0]["matrix"])}
            return calibration_of(matrices, pairs=[["fog", "snow"]], crop=crop_for(data, crop))

        stream = STREAMS[name](data, calibrate=calibrate, samples=8, **given)
    else:
        stream = STREAMS[name](data, **given)
    batch = stream.read(0, min(60, stream.length or 60))
    return [stream.length, batch.inputs.numpy().tobytes()]


def of_criterion(name: str, data: str, given: dict[str, Any]) -> bytes:
    _, samples = CLIPS[data]
    clips = np.random.default_rng(0).uniform(-1, 1, (6, samples)).astype(np.float32)
    made = criterion(name, data, **given)
    return b"".join(made(clip, made.rng("evaluation", index)).tobytes() for index, clip in enumerate(clips))


def same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.shape == two.shape and torch.equal(one, two)
    return bool(one == two)


@pytest.mark.parametrize(
    "difference",
    [
        pytest.param(each, marks=[pytest.mark.slow] if index % 6 else [], id=f"{each.source}: {each.topic}")
        for index, each in enumerate(OTHERS)
    ],
)
def test_the_option_exists_and_changes_the_result(difference: Difference) -> None:
    assert difference.other is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        default = outcome(difference.other, changed=False)
        assert same(default, outcome(difference.other, changed=False)), "the run itself is not repeatable"
        assert not same(default, outcome(difference.other, changed=True))


def test_every_known_difference_is_listed_with_an_option_or_a_reason() -> None:
    listed = {source: sum(1 for entry in differences() if entry.source == source) for source in COUNTS}
    assert all(listed[source] >= number for source, number in COUNTS.items()), listed
    for difference in differences():
        assert (difference.other is None) == bool(difference.none), difference.topic
        assert difference.follows in ("code", "paper", "same", "ours")
        assert difference.matters


def test_the_readme_counts_them() -> None:
    text = " ".join((Path(__file__).resolve().parents[2] / "README.md").read_text().split())
    assert f"differ in {len(differences())} points" in text
