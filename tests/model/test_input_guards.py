"""Inputs: which batches are refused as far out of range, which never are, and what is said about unusable ones."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import adapt
from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS
from holdfast.methods.tent import Tent
from holdfast.model.adapted import AdaptedModel
from holdfast.model.input_range import VOTES, InputRange, magnitude
from holdfast.models.classifier import Classifier
from holdfast.models.input_checks import explain_inputs
from holdfast.models.small import digits_resnet
from holdfast.models.tiny import tiny_resnet
from holdfast.randomness import seeded_rng
from holdfast.records import InputSpec

BATCHES = torch.rand(4, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def plain_network() -> nn.Module:
    """Return a network that does not say in which range its inputs are."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    ).eval()


@functools.cache
def corrupted(data: str, kind: str) -> dict[str, Tensor]:
    """Return a batch of every corruption at its highest severity, the clean one first."""
    samples = DATASETS[data]("test").inputs(np.arange(3))
    batches = {"clean": samples}
    for name in CORRUPTIONS.names(kind):  # type: ignore[arg-type]
        rngs = [seeded_rng(0, name, index) for index in range(len(samples))]
        corruption = CORRUPTIONS[name]
        batches[name] = np.stack([corruption(sample, 5.0, rng) for sample, rng in zip(samples, rngs, strict=True)])
    scale = 255 if samples.dtype == np.uint8 else 1
    return {name: torch.from_numpy(batch).float() / scale for name, batch in batches.items()}


@functools.cache
def audio_magnitudes(gain_db: int) -> dict[str, float]:
    """Return the magnitude of every batch of audio at one gain."""
    batches = corrupted("keywords", "audio")
    return {name: float(magnitude(batch * 10 ** (gain_db / 20))) for name, batch in batches.items()}


@pytest.mark.parametrize("first", ["clean", *CORRUPTIONS.names("image")])
def test_no_corruption_of_images_is_refused_whichever_comes_first(first: str) -> None:
    batches = corrupted("digits", "image")
    mean, std = batches["clean"].mean(), batches["clean"].std()
    for prepared in (batches, {name: (batch - mean) / std for name, batch in batches.items()}):
        usual = InputRange("image")
        assert usual.refusal(float(magnitude(prepared[first]))) is None
        assert [usual.refusal(float(magnitude(batch))) for batch in prepared.values()] == [None] * len(prepared)
        assert usual.refusal(255.0)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["clean", *CORRUPTIONS.names("audio")])
def test_no_corruption_or_gain_of_audio_is_refused_whichever_comes_first(first: str) -> None:
    pytest.importorskip("espeakng_loader", reason="speech: pip install 'holdfast[audio]'")
    for start_db in (-60, 0):  # a quiet recording, then the others at their level
        usual = InputRange("audio")
        assert usual.refusal(audio_magnitudes(start_db)[first]) is None
        for gain_db in (-60, -20, 0, 6, 12):
            assert not any(map(usual.refusal, audio_magnitudes(gain_db).values()))
        assert usual.refusal(0.0) is None  # silence
        assert usual.refusal(3e4), "16-bit audio was not refused"


def test_a_batch_of_0_to_255_is_predicted_and_not_learnt_from() -> None:
    data = DATASETS["digits"]("test")
    images = torch.from_numpy(data.inputs(np.arange(256))).permute(0, 3, 1, 2).float() / 255
    labels = torch.from_numpy(data.labels[:256])
    model = adapt(digits_resnet(), "robust_bn", estimator="anchored", recovery="regret")
    for batch in images[:128].split(64):
        assert model.step(batch).skipped is None
    for _ in range(20):
        step = model.step(255 * images[:64])
        assert step.skipped == "inputs reach 255, over 10 times the usual 1"
        assert step.estimates["anchored"].unknown == step.skipped
        assert step.logits.shape == (64, 10)
    assert float((model(images[128:]).argmax(1) == labels[128:]).float().mean()) > 0.95


@pytest.mark.parametrize("name", ["unitta", "bdn", "robust_bn", "tent", "neo", "t3a"])
@pytest.mark.parametrize("position", [0, 2])
def test_huge_inputs_leave_a_finite_state_wherever_they_come(name: str, position: int) -> None:
    model, twin = adapt(plain_network(), name), adapt(plain_network(), name)
    for number, batch in enumerate(BATCHES):
        if number == position:
            assert model.step(1e10 * batch).skipped
        assert torch.equal(model(batch), twin(batch))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_count_as_zero(value: float) -> None:
    model, batch = adapt(plain_network(), "source"), BATCHES[0].clone()
    batch[3, 0, 2, 2] = 0.0
    expected = model(batch)
    batch[3, 0, 2, 2] = value
    step = model.step(batch)
    assert step.skipped == "non-finite values in 1 of 8 inputs"
    assert torch.equal(step.logits, expected)


def test_the_largest_source_inputs_stay_usual_after_smaller_ones_and_a_reset() -> None:
    usual = InputRange("other")
    for reached in (5.0, 0.5):
        usual.show(torch.tensor([0.0, -reached]))
    for _ in range(2):
        assert (usual.usual, usual.refusal(50.0)) == (5.0, None)
        assert usual.refusal(51.0) == "inputs reach 51, over 10 times the usual 5"
        usual.reset_state()
    model = adapt(plain_network(), "poem", source=[3 * BATCHES[0], BATCHES[1]])
    shown = model.input_range.usual
    model.reset()
    assert model.input_range.usual == shown == float((3 * BATCHES[0]).max())


def test_later_batches_are_accepted_after_a_wrong_first_one_which_is_outvoted() -> None:
    model = adapt(plain_network(), "robust_bn")
    assert model.input_range.shown is None
    assert model.step(255 * BATCHES[0]).skipped is None  # nothing is known as yet
    assert [model.step(batch).skipped for batch in BATCHES] == [None] * 4
    assert model.step(255 * BATCHES[0]).skipped


def test_what_is_usual_follows_the_majority_of_the_first_batches_and_then_stays() -> None:
    usual = InputRange("other")
    refused = [usual.refusal(reached) is not None for reached in (0.01, 1.0, 1.0, 1.0, 1.0)]
    assert refused == [False, True, True, False, False]
    for _ in range(VOTES):
        usual.refusal(1.0)
    assert len(usual.votes) == VOTES
    assert all(usual.refusal(100.0) for _ in range(100))
    usual.reset_state()
    assert usual.refusal(100.0) is None


def test_source_inputs_and_held_out_data_decide_what_is_usual() -> None:
    for given in ({"source": [100 * BATCHES[0]]}, {"holdout": [100 * BATCHES[0]]}):
        model = adapt(plain_network(), "tent", estimator="anchored", **given)  # type: ignore[arg-type]
        assert model.step(255 * BATCHES[0]).skipped is None
        assert model.step(1e5 * BATCHES[0]).skipped
        model.reset()
        assert model.step(1e5 * BATCHES[0]).skipped
    assert adapt(tiny_resnet(), "tent").step(255 * BATCHES[0]).skipped  # it normalises images in [0, 1] itself


@pytest.mark.parametrize("order", [(1.0, 0.1), (0.1, 1.0)], ids=["large first", "small first"])
@pytest.mark.parametrize("where", ["source", "holdout"])
def test_the_largest_source_batch_is_usual_and_outlives_a_reset(where: str, order: tuple[float, float]) -> None:
    given = {where: [scale * 100 * BATCHES[0] for scale in order]}
    model = adapt(plain_network(), "tent", estimator="anchored", **given)  # type: ignore[arg-type]
    largest = float(100 * BATCHES[0].max())
    assert model.input_range.shown == model.input_range.usual == pytest.approx(largest)
    model(BATCHES[1])
    model.reset()
    assert model.input_range.shown == model.input_range.usual == pytest.approx(largest)
    model.fit_source([BATCHES[1]])  # a dark one changes nothing
    assert model.input_range.shown == pytest.approx(largest)
    assert model.step(9 * largest * BATCHES[0]).skipped is None
    assert model.step(12 * largest * BATCHES[0]).skipped


def test_a_reset_clears_the_votes_and_nothing_else_does() -> None:
    model = adapt(plain_network(), "tent")
    for scale in (1, 1, 20):
        model.step(scale * BATCHES[0])
    votes = [pytest.approx(scale * float(BATCHES[0].max())) for scale in (1, 1, 20)]
    assert (model.input_range.shown, model.input_range.votes) == (None, votes)
    model.predict(BATCHES[1])
    assert model.input_range.votes == votes
    model.reset()
    assert (model.input_range.shown, model.input_range.votes, model.input_range.usual) == (None, [], None)
    model.fit_source([BATCHES[0], 0.1 * BATCHES[0]])
    model(BATCHES[1])
    assert (model.input_range.shown, model.input_range.votes) == (pytest.approx(float(BATCHES[0].max())), [])


def test_silent_and_broken_source_batches_show_nothing_larger() -> None:
    usual = InputRange("image", known=1.0)
    usual.show(torch.full((2, 3), 4.0))
    usual.show(torch.zeros(2, 3))
    usual.show(torch.full((2, 3), float("inf")))
    usual.show(-torch.ones(2, 3))
    assert usual.shown == usual.usual == 4.0
    usual.reset_state()
    assert usual.shown == 4.0
    assert usual.refusal(39.0) is None
    assert usual.refusal(41.0)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (BATCHES[0, :0], r"^inputs hold no sample, shape \(0, 3, 16, 16\); skip empty batches$"),
        (BATCHES[0, 0], r"without a batch axis.*inputs\[None\]"),
        (BATCHES[0].numpy(), "^inputs must be a torch.Tensor, got numpy.ndarray; pass torch.as_tensor"),
        (BATCHES[0].tolist(), "got list; pass"),
        (
            (255 * BATCHES[0]).to(torch.uint8),
            "^inputs are torch.uint8; pass floating-point values scaled as in training",
        ),
        (BATCHES[0].long(), "^inputs are torch.int64"),
        (BATCHES[0].double(), r"^inputs are torch.float64, and the model takes torch.float32; pass inputs.to"),
        (BATCHES[0, :, :1], r"^inputs have 1 channels, and the model takes 3: \(batch, 3, "),
        (BATCHES[:2], r"^inputs have shape \(2, 8, 3, 16, 16\), and the model takes"),
    ],
)
@pytest.mark.parametrize("name", ["tent", "neo"])
def test_unusable_inputs_are_refused_in_one_sentence(name: str, inputs: Tensor, words: str) -> None:
    model, twin = adapt(plain_network(), name), adapt(plain_network(), name)
    assert torch.equal(model(BATCHES[0]), twin(BATCHES[0]))
    for call in (model.step, model.predict):
        with pytest.raises((ValueError, TypeError), match=words):
            call(inputs)
    assert torch.equal(model(BATCHES[1]), twin(BATCHES[1]))


def test_indices_are_not_judged_by_their_range() -> None:
    network = nn.Sequential(nn.Embedding(5000, 4), nn.Flatten(), nn.LayerNorm(12), nn.Linear(12, 3)).eval()
    model = AdaptedModel(Tent(Classifier(network, example=torch.zeros(1, 3, dtype=torch.long))))
    for largest in (3, 4000):
        assert model.step(torch.full((4, 3), largest)).skipped is None


def test_refused_batches_leave_nothing_in_memories() -> None:
    model = adapt(tiny_resnet(), "rotta", estimator="anchored")
    model(BATCHES[0])
    memory, anchored = model.method.memory, model.estimators["anchored"]
    before = (memory.offers, len(memory), anchored.batches)
    poisoned = BATCHES[1].clone()
    poisoned[0, 0, 0, 0] = float("nan")
    for inputs in (poisoned, 255 * BATCHES[1]):
        assert model.step(inputs).skipped
        assert (memory.offers, len(memory), anchored.batches) == before


def test_stereo_is_refused_where_one_channel_is_expected() -> None:
    reason = explain_inputs(torch.zeros(2, 2, 1_600), InputSpec("audio", (1, 1_600)), torch.float32)
    assert reason == "inputs have 2 channels, and the model takes 1: (batch, 1, 1600)"
