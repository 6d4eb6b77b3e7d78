"""UniTTA, BDN and COFA: three passes, separate domains, averaged neighbours."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.methods._by_domain import ByDomain
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet, tiny_vit

BATCHES = list(torch.rand(4, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0)))


def method_of(model: nn.Module) -> ByDomain:
    assert isinstance(model.method, ByDomain)
    return model.method


@pytest.mark.parametrize("name", ["bdn", "unitta", "unitta_auto"])
def test_three_passes_and_no_gradient(name: str) -> None:
    step = adapt(tiny_resnet(), name).step(BATCHES[0])
    assert (step.forwards, step.backwards, step.loss) == (3.0, 0.0, None)
    torch.testing.assert_close(step.logits.exp().sum(1), torch.ones(8))


def test_a_step_tells_how_many_domains_there_are() -> None:
    model = adapt(tiny_resnet(), "unitta", class_momentum=0.3)
    assert model.step(BATCHES[0]).gauges == {"domains": 1}
    method_of(model).domains.counts.append(0)  # as if samples had gone to the reserve
    assert method_of(model).gauges() == {"domains": 2}
    assert set(adapt(tiny_resnet(), "unitta_auto").step(BATCHES[0]).gauges) == {"domains", "correlation"}
    assert adapt(tiny_resnet(), "tent").step(BATCHES[0]).gauges == {}


def test_the_filter_takes_the_more_confident_prediction() -> None:
    model = adapt(tiny_resnet(), "bdn")
    together, apart = (torch.tensor(probs).log() for probs in ([[0.6, 0.4], [0.7, 0.3]], [[0.3, 0.7], [0.6, 0.4]]))
    chosen = method_of(model).choose(together, apart).exp()
    torch.testing.assert_close(chosen, torch.tensor([[0.3, 0.7], [0.7, 0.3]]))
    without = adapt(tiny_resnet(), "bdn", filter="off")
    assert method_of(without).choose(together, apart) is apart


def test_the_official_filter_of_unitta_sees_a_second_softmax() -> None:
    together, apart = torch.tensor([[0.98, 0.02], [0.98, 0.02]]), torch.tensor([[0.4, 0.6], [0.1, 0.9]])
    twice = together.softmax(1)  # at most e / (e + 1) = 0.73
    chosen = {
        name: method_of(adapt(tiny_resnet(num_classes=2), "unitta", filter=name)).choose(together.log(), apart.log())
        for name in ("official", "fixed", "off")
    }
    torch.testing.assert_close(chosen["official"].exp(), torch.stack([twice[0], apart[1]]))
    torch.testing.assert_close(chosen["fixed"].exp(), together)
    torch.testing.assert_close(chosen["off"].exp(), apart)


def test_neighbours_are_averaged_in_each_pass_with_features_of_that_pass() -> None:
    model = adapt(tiny_resnet(), "unitta", class_momentum=0.3)
    model(BATCHES[0])
    lasts = [part.last for part in method_of(model).neighbours]  # type: ignore[union-attr]
    assert all(isinstance(last, Tensor) and last.shape == (1, 16) for last in lasts)
    assert not torch.equal(lasts[0], lasts[1])
    assert not torch.equal(lasts[1], lasts[2])


def test_cofa_is_the_mean_with_the_sample_before_across_batches() -> None:
    network = tiny_resnet()
    whole = torch.cat(BATCHES)
    features = network.stages(torch.relu(network.norm(network.conv(network.normalise(whole))))).mean((2, 3)).detach()
    before = torch.cat([features[:1], features[:-1]])
    own, shared = network.fc(features).softmax(1), network.fc((features + before) / 2).softmax(1)
    surest = torch.where(own.amax(1, keepdim=True) >= shared.amax(1, keepdim=True), own, shared)
    for name, expected in (("official", surest), ("off", shared)):
        model = adapt(network, "cofa", filter=name)
        logits = torch.cat([model(part) for part in whole.split([1, 15, 16])]).exp()
        torch.testing.assert_close(logits, expected.detach())


@pytest.mark.parametrize("name", ["cofa", "unitta", "unitta_auto"])
def test_neighbours_without_a_head_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="head="):
        adapt(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12), nn.Softmax(1)), name, example=torch.zeros(2, 12))


@pytest.mark.parametrize(
    "options",
    [{"filter": "on"}, {"distance": "l2"}, {"step": "free"}, {"overflow": "drop"}, {"max_domains": 1}],
)
def test_what_is_not_known_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be|at least 2"):
        adapt(tiny_resnet(), "unitta", **options)


def test_a_network_without_normalisation_is_refused() -> None:
    with pytest.raises(ValueError, match="'cofa'"):
        adapt(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), "bdn", example=torch.zeros(2, 3, 2, 2))


def test_the_layer_that_tells_domains_can_be_named() -> None:
    model = adapt(tiny_resnet(), "bdn", prediction_layer="norm")
    assert method_of(model).model.module.get_submodule("norm").watched
    with pytest.raises(ValueError, match="did you mean"):
        adapt(tiny_resnet(), "bdn", prediction_layer="norme")
    assert method_of(adapt(tiny_vit(), "bdn")).model.module.get_submodule("blocks.1.norm1").alignment.watched
