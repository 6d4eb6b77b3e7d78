"""Byte images: refused in one sentence before anything changes, unless the network takes them by design."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import adapt, doctor, guard
from holdfast.data import DATASETS
from holdfast.model.adapted import AdaptedModel
from holdfast.models.base import seeded_weights
from holdfast.models.normalised import Normalised
from holdfast.models.small import digits_resnet
from holdfast.models.tiny import tiny_amaut, tiny_resnet
from holdfast.state import state_digest

REFUSED = (
    r"^inputs are torch\.{}; pass floating-point values scaled as in training, e\.g\. inputs\.float\(\) / 255, or "
    r"build the model with example=inputs if the network scales integers itself$"
)
BYTES = REFUSED.format("uint8")
DATA = DATASETS["digits"]("test")
IMAGES = torch.from_numpy(DATA.inputs(np.arange(320))).permute(0, 3, 1, 2).contiguous()  # bytes
LABELS = torch.from_numpy(DATA.labels[:320])
FLOATS = IMAGES.float() / 255


class Around(nn.Module):
    """A network behind a function that brings its inputs to another scale."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change, self.network = change, plain_network()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(self.change(inputs))
        return logits


def plain_network() -> nn.Module:
    with seeded_weights(0):
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
        )


def promoting() -> nn.Module:
    """Return a network that takes images in [0, 1], and bytes at a wrong scale."""
    return Around(lambda inputs: (inputs - 0.5) / 0.25).eval()


def scaling() -> nn.Module:
    """Return a network that takes bytes by design."""
    return Around(lambda inputs: inputs.float() / 255).eval()


def adapted(name: str, network: nn.Module) -> AdaptedModel:
    source = [FLOATS[:64]]
    return guard(network, budget=0.5, source=source) if name == "guard" else adapt(network, name, source=source)


@pytest.mark.parametrize("size", [pytest.param(64, marks=pytest.mark.slow), 16])
@pytest.mark.parametrize("name", ["blend", "robust_bn", "neo", "guard"])
@pytest.mark.parametrize("wrong", [IMAGES, pytest.param(IMAGES.long(), marks=pytest.mark.slow)], ids=["bytes", "int64"])
def test_a_refused_batch_of_bytes_leaves_the_model_as_it_was(name: str, size: int, wrong: Tensor) -> None:
    model, twin = adapted(name, digits_resnet()), adapted(name, digits_resnet())
    for batch in FLOATS[:64].split(size):
        assert torch.equal(model(batch), twin(batch))
    before = state_digest(model.snapshot())
    for call in (model, model.step, model.predict, model.begin, model.source):
        with pytest.raises(ValueError, match=REFUSED.format(str(wrong.dtype).removeprefix("torch."))):
            call(wrong[64 : 64 + size])
        assert state_digest(model.snapshot()) == before
    right = []
    for batch, labels in zip(FLOATS[64:].split(size), LABELS[64:].split(size), strict=True):
        logits = model(batch)
        assert torch.equal(logits, twin(batch))
        right.append(logits.argmax(1) == labels)
    assert float(torch.cat(right).float().mean()) > 0.95


@pytest.mark.parametrize("size", [pytest.param(64, marks=pytest.mark.slow), 16])
@pytest.mark.parametrize("name", ["blend", "neo", "guard"])
def test_floats_of_0_to_255_are_predicted_and_not_learnt_from(name: str, size: int) -> None:
    model, twin = adapted(name, digits_resnet()), adapted(name, digits_resnet())
    for index, batch in enumerate(FLOATS.split(size)):
        if index in (0, 2):
            assert model.step(255 * batch).skipped == "inputs reach 255, over 10 times the usual 1"
        assert torch.equal(model(batch), twin(batch))


@pytest.mark.parametrize("make", [promoting, plain_network, tiny_resnet])
def test_source_data_and_examples_of_bytes_are_refused(make: Callable[[], nn.Module]) -> None:
    pairs = [(FLOATS[:16], LABELS[:16] % 4), (IMAGES[16:32], LABELS[16:32] % 4)]
    for given in (pairs, pairs[::-1], [inputs for inputs, _ in pairs]):
        for build in (adapt, guard):
            for where in ("source", "holdout"):
                network = make().eval()
                names = [name for name, _ in network.named_modules()]
                with pytest.raises(ValueError, match=BYTES):
                    build(network, "tent", in_place=True, **{where: given})
                assert [name for name, _ in network.named_modules()] == names
    model = adapt(make().eval(), "eata", estimator="anchored", source=[FLOATS[:16]])
    before = state_digest(model.snapshot())
    for fit in (model.fit_source, model.fit_holdout):
        with pytest.raises(ValueError, match=BYTES):
            fit(pairs)
        assert state_digest(model.snapshot()) == before
    with pytest.raises(ValueError, match=BYTES):
        model.export(statistics="frozen", inputs=IMAGES[:16])


def test_a_network_that_normalises_images_refuses_bytes_itself() -> None:
    words = r"inputs are torch.uint8, and the network takes images in \[0, 1\]; pass inputs.float\(\) / 255"
    for network in (digits_resnet(), Normalised(plain_network().eval(), [0.5] * 3, [0.25] * 3)):
        with pytest.raises(ValueError, match=f"^{words}$"):
            network(IMAGES[:2])


def test_an_example_of_bytes_is_refused_by_networks_that_do_not_take_it() -> None:
    words = r"^the example is torch.uint8, and \w+ takes floating-point inputs; .* example=inputs.float\(\) / 255$"
    for network in (digits_resnet(), Normalised(plain_network().eval(), [0.5] * 3, [0.25] * 3), plain_network().eval()):
        for build in (adapt, guard):
            with pytest.raises(ValueError, match=words):
                build(network, example=IMAGES[:2])
        (finding,) = doctor(network, example=IMAGES[:2], methods=[]).failed
        assert "inputs.float() / 255" in finding.observed


@pytest.mark.parametrize("name", ["tent", "robust_bn", "neo", "guard"])
def test_bytes_are_taken_by_a_network_whose_example_they_are(name: str) -> None:
    network = scaling()
    with pytest.raises(ValueError, match=BYTES):
        adapt(network, name).step(IMAGES[:16])
    build = guard if name == "guard" else adapt
    model = build(network, *([] if name == "guard" else [name]), example=IMAGES[:1], source=[IMAGES[:64]])
    for batch in IMAGES[:64].split(16):
        assert torch.equal(model.source(batch), network(batch))
        assert model.step(batch).skipped is None
    before = state_digest(model.snapshot())
    for wrong, remedy in ((FLOATS, r"\(255 \* inputs\).round\(\).to\(torch.uint8\)"), (IMAGES.long(), "inputs.to")):
        with pytest.raises(
            ValueError, match=rf"^inputs are {wrong.dtype}, and the model takes torch.uint8; pass {remedy}"
        ):
            model(wrong[:16])
    assert state_digest(model.snapshot()) == before


def test_the_remedy_for_floats_gives_the_bytes_back() -> None:
    everything = torch.arange(256, dtype=torch.uint8)
    assert torch.equal((255 * (everything.float() / 255)).round().to(torch.uint8), everything)


def test_integer_waveforms_and_volumes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^inputs are torch.int16; .* e\.g\. inputs\.float\(\) / 32768"):
        adapt(tiny_amaut(), "tent").step(torch.zeros(4, 16_000, dtype=torch.int16))
    volume = nn.Sequential(
        nn.Conv3d(1, 4, 3), nn.BatchNorm3d(4), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    model = adapt(nn.Sequential(Promote(), volume).eval(), "tent", example=torch.zeros(1, 1, 8, 8, 8))
    assert model.step(torch.rand(4, 1, 8, 8, 8)).skipped is None
    with pytest.raises(ValueError, match=r"^inputs are torch.uint8; pass floating-point values"):
        model(torch.zeros(4, 1, 8, 8, 8, dtype=torch.uint8))


class Promote(nn.Module):
    """Turns integers into floats."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.float()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_indices_and_counts_are_taken_as_before(dtype: torch.dtype) -> None:
    tokens = torch.arange(32).view(8, 4).to(dtype)
    reading = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.LayerNorm(16), nn.Linear(16, 3)).eval()
    for given in ({"example": tokens[:1]}, {"source": [tokens]}):
        model = adapt(reading, "eata" if "source" in given else "tent", **given)  # type: ignore[arg-type]
        assert model.step(tokens).skipped is None
        assert torch.equal(model.source(tokens), reading(tokens))
    counting = nn.Sequential(Promote(), nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)).eval()
    assert adapt(counting, "tent").step(tokens).skipped is None


def test_the_doctor_says_what_to_pass() -> None:
    data = [(IMAGES[:64], LABELS[:64] % 4)]

    def finding(network: nn.Module, given: list[tuple[Tensor, Tensor]], **options: Tensor) -> tuple[str, str]:
        diagnosis = doctor(network, given, methods=["tent"], **options)  # type: ignore[arg-type]
        return next((each.status, each.remedy or "") for each in diagnosis.findings if each.check == "input dtype")

    for network in (promoting(), plain_network().eval(), digits_resnet()):
        status, remedy = finding(network, data)
        assert status == "fail"
        assert "inputs.float() / 255" in remedy
    assert "example=inputs" in finding(scaling(), data)[1]
    assert finding(scaling(), data, example=IMAGES[:1]) == ("ok", "")
    status, remedy = finding(scaling(), [(FLOATS[:64], LABELS[:64] % 4)], example=IMAGES[:1])
    assert status == "fail"
    assert "(255 * inputs)" in remedy
