"""The moments of the source's own data: measured without a trace, kept whatever happens, and what classes explain."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from tapped_networks import classifier, inputs
from torch import Tensor, nn

import holdfast
from holdfast.anchor import Anchor, is_referred, measure_reference, shift_of, taps_of
from holdfast.anchor.sites import MOST_SAMPLES
from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs
from holdfast.model.adapted import AdaptedModel
from holdfast.models import Classifier, digits_resnet, keywords_amaut, tiny_resnet
from holdfast.models.classifier import weights_digest

FAMILIES = ("batch", "group", "vit", "no norm")


def adapted(name: str, method: str = "blend") -> AdaptedModel:
    return holdfast.adapt(classifier(name).module, method, source=[inputs(name)], example=inputs(name))


def state_of(model: AdaptedModel) -> list[Tensor]:
    """Return the reference and the recent moments of every tap, and what the taps share."""
    sites = [tap.site for tap in taps_of(model.method.model).values()]
    following = model.method.anchor.following
    shared = following.samples, following.mix, following.classes, following.class_shares
    known = [(site.mean, site.var, *(site.reference or ())) for site in sites]
    return [part for parts in (*known, shared) for part in parts if part is not None]


def test_measuring_leaves_the_network_and_the_generator_as_they_were() -> None:
    network = tiny_resnet().train()
    before, draws = weights_digest(network), torch.get_rng_state()
    reference = measure_reference(Classifier(network), [torch.rand(8, 3, 32, 32, generator=torch.Generator())])
    assert reference.samples == 8
    assert weights_digest(network) == before
    assert network.training
    assert torch.equal(torch.get_rng_state(), draws)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


def test_batches_of_any_size_are_measured_alike() -> None:
    network, given = classifier("batch"), inputs("batch")
    whole, parts = (measure_reference(network, batches) for batches in ([given], given.split(7)))
    for name, moments in whole.sites.items():
        for one, other in zip(vars(moments).values(), vars(parts.sites[name]).values(), strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
    assert torch.equal(whole.classes, parts.classes)


def test_moments_are_those_of_the_inputs_of_a_batch_norm_layer() -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4)).eval()
    given = torch.rand(20, 3, 6, 6)
    moments = measure_reference(Classifier(network, example=given), [given]).sites["0"]
    torch.testing.assert_close(moments.mean, given.mean((0, 2, 3)))
    torch.testing.assert_close(moments.var, given.var((0, 2, 3), correction=0))


def test_no_more_samples_are_measured_than_help() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    read: list[int] = []

    def batches() -> object:
        for number in range(100):
            read.append(number)
            yield torch.rand(300, 4)

    assert measure_reference(Classifier(network), batches()).samples == MOST_SAMPLES
    assert len(read) == 4
    with pytest.raises(ValueError, match="there are no source samples with finite values to measure; pass source="):
        measure_reference(Classifier(network), [])


@pytest.mark.parametrize("name", FAMILIES)
def test_copies_and_pickles_keep_the_reference_and_go_their_own_way(name: str) -> None:
    model = adapted(name)
    model(inputs(name, seed=2) + 0.3)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(state_of(twin), state_of(model), atol=0, rtol=0)
        before = state_of(model)
        twin(inputs(name, seed=3))
        torch.testing.assert_close(state_of(model), before, atol=0, rtol=0)
        assert not all(torch.equal(one, other) for one, other in zip(state_of(twin), before, strict=True))
        # Its taps follow what its own anchor counts, not what that of the original does.
        assert all(tap.following is twin.method.anchor.following for tap in taps_of(twin.method.model).values())


@pytest.mark.parametrize("name", FAMILIES)
def test_saving_resetting_and_returning_keep_the_reference(name: str, tmp_path: Path) -> None:
    model = adapted(name)
    first, second = inputs(name, seed=2) + 0.3, inputs(name, seed=3)
    fresh, start = model(first), model.snapshot()
    expected = model(second)
    model.save(tmp_path / "model.safetensors")
    model.return_to(start)
    assert torch.equal(model(second), expected)
    model.reset()
    assert is_referred(model.method.model)
    assert torch.equal(model(first), fresh)
    other = holdfast.adapt(classifier(name).module, source=[inputs(name, seed=9)], example=inputs(name))
    other.load(tmp_path / "model.safetensors")
    model.load(tmp_path / "model.safetensors")
    torch.testing.assert_close(state_of(other), state_of(model), atol=0, rtol=0)
    assert torch.equal(other(second), model(second))


def test_a_saved_model_brings_its_reference_to_one_without(tmp_path: Path) -> None:
    model = adapted("group")
    model.save(tmp_path / "model.safetensors")
    bare = holdfast.adapt(classifier("group").module, example=inputs("group"))
    assert not is_referred(bare.method.model)
    bare.load(tmp_path / "model.safetensors")
    assert torch.equal(bare(inputs("group", seed=2)), model(inputs("group", seed=2)))


def explained_on(batches: list[Tensor], source: list[Tensor]) -> float:
    """Return the share of the divergence of recent moments that class proportions explain."""
    shifts = []
    for explain in (False, True):
        network, anchor = Classifier(digits_resnet()), Anchor()
        reference = measure_reference(network, source)
        plain = copy.deepcopy(network)
        anchor.tap(network, source_share=0.5)
        anchor.refer_to(network, reference)
        with torch.no_grad():
            for batch in batches:
                anchor.follow(network, batch, plain(batch) if explain else None)
        shifts.append(float(shift_of(list(taps_of(network).values()))))
    return 1 - shifts[1] / shifts[0]


def test_ninety_percent_of_one_class_are_explained_and_noise_is_not(
    digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, labels = digits
    draws = torch.Generator().manual_seed(0)
    common = torch.where(labels == 3, 0.9 / (labels == 3).sum(), 0.1 / (labels != 3).sum())
    rare = [inputs[chosen] for chosen in common.multinomial(256, True, generator=draws).split(64)]
    noisy = inputs[:256] + 0.3 * torch.randn(256, *inputs.shape[1:], generator=draws)
    assert explained_on(rare, source) > 0.8
    assert explained_on(list(noisy.clamp(0, 1).split(64)), source) < 0.25


def test_one_class_moves_neither_the_moments_nor_the_weight_of_the_anchor(
    digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, labels = digits
    shifts = {}
    for name, rows in {"one class": inputs[labels == 4][:64], "all": inputs[:64]}.items():
        model = holdfast.adapt(digits_resnet(), source=source)
        shifts[name] = model.step(rows).gauges["shift"]
    assert shifts["one class"] < 0.002  # half of `half_shift`: the source counts more
    assert shifts["all"] < 0.001


@pytest.mark.slow
@pytest.mark.parametrize("two", [(1, 21), (12, 13)])
def test_two_classes_for_ever_do_not_cost_the_default_accuracy(two: tuple[int, int]) -> None:
    data, clean = DATASETS["keywords"]("test"), DATASETS["keywords"]("validation")
    draws = np.random.default_rng(0)
    rows = np.flatnonzero(np.isin(data.labels, two))
    source = [as_inputs(clean.inputs(draws.permutation(len(clean.labels))[:192]))]
    model, right, by_source = holdfast.adapt(keywords_amaut(), source=source), 0, 0
    for _ in range(5):
        chosen = draws.choice(rows, 48)
        inputs, labels = as_inputs(data.inputs(chosen)), torch.from_numpy(data.labels[chosen])
        right += int((model(inputs).argmax(1) == labels).sum())
        by_source += int((model.source(inputs).argmax(1) == labels).sum())
    assert right >= by_source - 2
