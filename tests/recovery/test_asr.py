"""ASR: when it resets, which layers it keeps, what it pulls back to, and what the released ROID resets instead."""

from __future__ import annotations

import math

import pytest
import torch

from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet
from holdfast.records import Beside, Refused, Step
from holdfast.recovery.asr import Asr, mean_spread
from holdfast.restorable import Pull

BATCHES = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Network:
    """Ten parameters; records how many of the first were kept."""

    def __init__(self) -> None:
        self.trained = [torch.full((2,), float(index)) for index in range(10)]
        self.pull: Pull | None = None
        self.kept: list[int] = []

    @property
    def stepper(self) -> Network:
        return self

    def pull_towards(self, pull: Pull | None) -> None:
        self.pull = pull

    def reset(self, keeping: list[torch.Tensor]) -> None:
        self.kept.append(len(keeping))


def step(height: float, *, classes: int = 10, samples: int = 4, flipped: float = 0.0) -> Step:
    """A batch whose mean logits favour one class; a share of predictions differs from the source's."""
    logits = torch.zeros(samples, classes)
    logits[:, 0] = height
    source = logits.clone()
    source[: int(flipped * samples), 1] = height + 1
    return Step(logits, loss=0.5, beside=Beside(logits, source))


def run(recovery: Asr, network: Network, given: Step) -> str | None:
    recovery.begin(network)  # type: ignore[arg-type]
    return recovery.recover(network, given)  # type: ignore[arg-type]


def test_the_published_threshold_never_resets_ten_classes_and_the_scaled_one_equals_it_for_a_thousand() -> None:
    assert Asr().start(1000) == pytest.approx(Asr(start_share=0.5).start(1000))
    assert math.exp(Asr().start(10)) / 10 == pytest.approx(0.794, abs=1e-3)


def test_the_further_below_the_threshold_the_fewer_layers_are_kept() -> None:
    kept = []
    for height in (1.60, 1.62, 3.0):
        network, given = Network(), step(height)
        assert run(Asr(), network, given)
        gap = Asr().start(10) - mean_spread(given.logits)
        assert network.kept == [math.ceil(10 * max(0.0, 0.5 - 20 * gap))]
        kept += network.kept
    assert kept[0] > kept[1] > kept[2] == 0


def test_the_threshold_follows_the_entropy_unless_predictions_have_flipped() -> None:
    moved = []
    for flipped in (0.0, 0.5, 1.0):
        recovery = Asr()
        assert run(recovery, Network(), step(0.0, flipped=flipped)) is None
        assert recovery.threshold is not None
        moved.append(recovery.threshold - recovery.start(10))
    assert moved == pytest.approx([0.15 * (math.log(10) - Asr().start(10)) * share for share in (1.0, 0.5, 0.0)])


def test_a_single_sample_is_not_judged() -> None:
    assert run(Asr(), Network(), step(9.0, samples=1)) is None


def test_a_batch_whose_update_was_refused_does_not_count() -> None:
    recovery, given = Asr(), step(9.0)
    refused = Step(given.logits, events=(Refused("non-finite loss or gradient"),), beside=given.beside)
    assert run(recovery, Network(), refused) is None
    assert (recovery.batches, recovery.threshold) == (0, None)
    assert run(recovery, Network(), given)


def test_after_a_reset_updates_are_pulled_to_the_mean_weights() -> None:
    recovery, network = Asr(), Network()
    for index, weight in enumerate(network.trained):
        weight.grad = torch.full((2,), float(index))
    run(recovery, network, step(0.0))
    for weight in network.trained:
        weight += 2.0
    assert run(recovery, network, step(9.0, flipped=1.0))
    recovery.begin(network)  # type: ignore[arg-type]
    assert network.pull is not None
    assert [float(centre[0]) for centre in network.pull.centres] == [index + 1.0 for index in range(10)]
    assert [float(strength[0]) for strength in network.pull.strengths] == [5.0 * index**2 for index in range(10)]


def test_a_second_reset_moves_the_averages_and_the_threshold_starts_anew() -> None:
    recovery, network = Asr(fisher_momentum=0.75), Network()
    start, moved = recovery.start(10), 0.15 * (math.log(10) - recovery.start(10))
    for slope in (1.0, 2.0):  # of the gradients; each time a calm batch, then a reset
        for index, weight in enumerate(network.trained):
            weight.grad = torch.full((2,), slope * index)
        assert run(recovery, network, step(0.0)) is None
        assert recovery.threshold == pytest.approx(start + moved)
        for weight in network.trained:
            weight += 2.0
        assert run(recovery, network, step(9.0, flipped=1.0))
        assert recovery.threshold is None
    recovery.begin(network)  # type: ignore[arg-type]
    assert network.pull is not None
    # The means of the weights were i + 1 and i + 3, those of the squared gradients i² and 4 i².
    assert [float(centre[0]) for centre in network.pull.centres] == [index + 1.5 for index in range(10)]
    assert [float(strength[0]) for strength in network.pull.strengths] == [5.0 * 1.75 * i**2 for i in range(10)]


def adapted(resets: str) -> AdaptedModel:
    return adapt(tiny_resnet(), "asr_roid", start_share=1.0, kept_slope=0.0, resets=resets)


def test_the_released_roid_never_resets_an_adapted_weight() -> None:
    changed = {}
    for resets in ("weights", "anchor"):
        model, plain = adapted(resets), adapt(tiny_resnet(), "roid")
        plain(BATCHES[0])
        assert model.step(BATCHES[0]).recovered
        pairs = zip(model.method.trained, plain.method.trained, strict=True)
        changed[resets] = [not torch.equal(ours, theirs) for ours, theirs in pairs]
    assert not any(changed["anchor"])
    half = len(changed["weights"]) // 2
    assert not any(changed["weights"][:half])
    assert any(changed["weights"][half:])


def test_a_method_without_an_anchor_refuses_to_reset_it() -> None:
    model = adapt(tiny_resnet(), "tent", recovery="asr", recovery_options={"resets": "anchor", "start_share": 1.0})
    assert "averages its weights with no others" in (model.step(BATCHES[0]).skipped or "")


def test_a_recipe_has_presets_of_its_recovery() -> None:
    recipe = adapt(tiny_resnet(), "asr_eta", preset="ccc-hard-vit").recipe
    assert recipe["recovery_options"]["start_share"] == 0.005
    assert recipe["recovery_options"]["flip_momentum"] == 0.9995
    assert recipe["options"]["nesterov"] is True
