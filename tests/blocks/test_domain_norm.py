"""Domain statistics: incremental sums equal those over all strata, and only strata that occurred use memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.balanced_norm import given_labels
from holdfast.blocks.domain_norm import DomainStatistics
from holdfast.blocks.domain_tracker import Domains, distances, prediction_layer

CLASSES, CHANNELS = 4, 3


def network(class_momentum: float = 0.2, *, capped: bool = True) -> nn.Sequential:
    norm = nn.BatchNorm2d(CHANNELS, dtype=torch.float64).eval()
    norm.running_mean, norm.running_var = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.5, 2.0]], dtype=torch.float64)
    layer = DomainStatistics(norm, num_classes=CLASSES, class_momentum=class_momentum, capped=capped)
    return nn.Sequential(layer).requires_grad_(False)


def domains_of(part: nn.Sequential, **options: object) -> Domains:
    return Domains(part, "0", num_classes=CLASSES, **options)  # type: ignore[arg-type]


def samples(count: int, shift: float = 0.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, CHANNELS, 4, 4, dtype=torch.float64, generator=generator) * 0.5 + shift


def learn(part: nn.Sequential, domains: Domains, features: Tensor, labels: Tensor) -> Tensor:
    with given_labels(part, labels):
        part(features)
    with domains.apart(labels):
        normalised: Tensor = part(features)
    return normalised


class WrittenOut:
    """The official update: all strata of all domains, averaged anew every time."""

    def __init__(self, layer: DomainStatistics, slots: int, *, capped: bool) -> None:
        self.momentum, self.capped = layer.class_momentum, capped
        self.mean = layer.source_mean.repeat(slots, CLASSES, 1)
        self.var = layer.source_var.repeat(slots, CLASSES, 1)

    def learn(self, features: Tensor, domains: Tensor, labels: Tensor) -> None:
        mean, var = features.mean((2, 3)), features.var((2, 3), correction=0)
        for domain, label in {(int(d), int(k)) for d, k in zip(domains, labels, strict=True)}:
            own = (domains == domain) & (labels == label)
            step = min(self.momentum, 1 / int(own.sum())) if self.capped else self.momentum
            old_mean, old_var = self.mean[domain, label].clone(), self.var[domain, label].clone()
            shift = step * (mean[own] - old_mean).sum(0)
            self.mean[domain, label] += shift
            self.var[domain, label] += step * (var[own] + (mean[own] - old_mean) ** 2 - old_var).sum(0) - shift**2

    def moments(self) -> tuple[Tensor, Tensor]:
        return self.mean.mean(1), self.var.mean(1) + self.mean.var(1)


@pytest.mark.parametrize(("momentum", "capped"), [(0.05, True), (0.4, True), (0.05, False), (0.3, False)])
def test_sums_that_follow_are_those_of_all_strata(momentum: float, capped: bool) -> None:
    part = network(momentum, capped=capped)
    layer, domains = part[0], domains_of(part)
    generator, reference = torch.Generator().manual_seed(1), None
    for batch in range(9):
        features = torch.cat([samples(6, 0.0, batch), samples(6, 6.0, batch + 100) if batch > 2 else samples(0)])
        labels = torch.randint(CLASSES, (len(features),), generator=generator)
        if batch == 8:  # each sample is a stratum, not in their order
            features, labels = features[[11, 0, 6]], torch.tensor([0, 2, 1])
        normalised = learn(part, domains, features, labels)
        reference = reference or WrittenOut(layer, 9, capped=capped)
        assert domains.assigned is not None
        reference.learn(features, domains.assigned, labels)
        mean, var = (moments[: len(domains.counts)] for moments in reference.moments())
        torch.testing.assert_close(domains.moments(), (mean, var))
        own_mean, own_var = (moments[domains.assigned].view(-1, CHANNELS, 1, 1) for moments in (mean, var))
        expected = (features - own_mean) / (own_var.clamp_min(0) + layer.eps).sqrt()
        torch.testing.assert_close(normalised, expected)
    assert len(domains.counts) > 2
    assert sum(domains.counts) == 8 * 6 + 5 * 6 + 3


def test_only_strata_that_were_met_take_up_room() -> None:
    part = network()
    domains = domains_of(part)
    for batch in range(20):
        learn(part, domains, samples(8, seed=batch), torch.tensor([0, 0, 2, 2, 2, 0, 0, 2]))
    assert sorted(domains.strata) == [0, 2]
    assert domains.stratum_counts == [80, 80]
    assert len(part[0].domains.strata) == 2


def test_the_first_batch_is_one_domain_and_the_reserve_stays_the_source() -> None:
    part = network()
    domains = domains_of(part)
    labels = torch.arange(8) % CLASSES
    learn(part, domains, samples(8, 5.0), labels)
    assert domains.counts == [8, 0]  # both slots were still equal: the first of equals
    learn(part, domains, torch.cat([samples(4, 5.0), samples(4, 0.3, 1)]), labels)
    assert domains.counts == [12, 4, 0]
    learn(part, domains, samples(8, 5.0, 2), labels)
    assert domains.counts == [20, 4, 0]  # a domain that comes back is known again
    mean, var = domains.moments()
    torch.testing.assert_close((mean[-1], var[-1]), (part[0].source_mean, part[0].source_var), rtol=0, atol=0)


@pytest.mark.parametrize("overflow", ["merge", "prune"])
def test_an_endless_stream_of_new_domains_takes_bounded_room(overflow: str) -> None:
    part = network(0.3)
    domains = domains_of(part, max_domains=5, overflow=overflow)
    for batch in range(60):
        direction = torch.zeros(CHANNELS, 1, 1).double()
        direction[batch % CHANNELS] = 1.0
        spread = samples(8, seed=batch) + direction * (batch % 7 - 3) * 3
        learn(part, domains, spread, torch.arange(8) % CLASSES)
        assert len(domains.counts) <= 5
        assert len(domains.strata) == len(domains.stratum_counts) <= 5 * CLASSES
        assert part[0].domains.sums.shape[0] == len(domains.counts)
        assert {key // CLASSES for key in domains.strata} <= set(range(len(domains.counts) - 1))
    assert sum(domains.counts) == 480 or overflow == "prune"
    strata = part[0].domains.strata[list(domains.strata.values())]
    owners = torch.tensor([key // CLASSES for key in domains.strata])
    totals = torch.zeros(5, CHANNELS).double().index_add(0, owners, strata[:, 0])
    torch.testing.assert_close(part[0].domains.sums[:, 0], totals[: len(domains.counts)])


def test_the_closest_two_become_the_mixture_of_both() -> None:
    part = network(0.5)
    domains = domains_of(part, max_domains=4)
    for shift, label in ((20.0, 0), (0.4, 1), (-20.0, 2)):  # the second one is close to the source only
        for seed in range(6):
            learn(part, domains, samples(4, shift, seed), torch.full((4,), label))
    counts = list(domains.counts)
    before = domains.moments()[0]
    domains.regroup([0, 1, 1, 2][: len(counts)])
    assert domains.counts == [counts[0], counts[1] + counts[2], *counts[3:]]
    torch.testing.assert_close(domains.moments()[0][0], before[0])  # the others are as they were
    # Their classes differ: every stratum is unchanged, and the sums are those of both.
    source = part[0].source_mean
    torch.testing.assert_close(domains.moments()[0][1] - source, (before[1] - source) + (before[2] - source))


def test_joined_strata_weigh_by_their_samples() -> None:
    part = network(1.0)
    domains = domains_of(part)
    layer = part[0].domains
    first, second = samples(2, 9.0), samples(6, 0.3, 1)
    for features in (first, second):
        learn(part, domains, features, torch.zeros(len(features), dtype=torch.long))
    assert domains.counts == [2, 6, 0]
    domains.regroup([0, 0, 1])
    both = torch.cat([first, second]).transpose(0, 1).flatten(1)
    torch.testing.assert_close(part[0].source_mean + layer.strata[0, 0], both.mean(1))
    torch.testing.assert_close(part[0].source_var + layer.strata[0, 1], both.var(1, correction=0))


def test_uncapped_steps_diverge_where_capped_ones_settle() -> None:
    spread = {}
    for capped in (True, False):
        part = network(0.5, capped=capped)
        domains = domains_of(part)
        for seed in range(12):
            learn(part, domains, samples(16, 1.0, seed), torch.zeros(16, dtype=torch.long))
        spread[capped] = float(part[0].domains.strata[0].abs().max())
    assert spread[True] < 10 < 100 < spread[False]


def test_paused_and_non_finite_batches_teach_nothing() -> None:
    part = network()
    domains = domains_of(part)
    learn(part, domains, samples(8, 5.0), torch.arange(8) % CLASSES)
    before = part[0].domains.sums.clone()
    learn(part, domains, samples(8) * float("inf"), torch.arange(8) % CLASSES)
    part(samples(8))
    with domains.apart(None):
        part(samples(8))
    assert domains.counts == [16, 0]
    assert torch.equal(part[0].domains.sums[: len(before)], before)


def test_distances_are_those_between_normal_distributions() -> None:
    mean, var, domain_mean, domain_var = torch.rand(4, 5, CHANNELS, generator=torch.Generator().manual_seed(0)) + 0.1
    normals = [
        torch.distributions.Normal(m.unsqueeze(d), v.unsqueeze(d).sqrt())
        for d, m, v in ((1, mean, var), (0, domain_mean, domain_var))
    ]
    both = torch.distributions.kl_divergence(*normals) + torch.distributions.kl_divergence(*normals[::-1])
    divergences = distances(mean, var, domain_mean, domain_var, "kl")
    torch.testing.assert_close(divergences.float(), both.sum(2))
    wasserstein = (normals[0].mean - normals[1].mean) ** 2 + (normals[0].stddev - normals[1].stddev) ** 2
    torch.testing.assert_close(distances(mean, var, domain_mean, domain_var, "w2").float(), wasserstein.sum(2))


def test_the_prediction_layer_is_found_or_named() -> None:
    layers = ["bn1", "layer1.0.bn1", "layer2.0.bn1", "layer3.0.bn1", "layer3.0.bn2", "layer4.0.bn1"]
    assert prediction_layer(layers, ["layer1", "layer2", "layer3"]) == "layer2.0.bn1"  # the golden network's
    assert prediction_layer(layers, ["layer1", "layer2", "layer3", "layer4"]) == "layer3.0.bn1"  # ResNet-50's
    assert prediction_layer(layers, []) == "layer3.0.bn1"
    assert prediction_layer(layers, ["layer1"], "bn1") == "bn1"
    with pytest.raises(ValueError, match=r"did you mean 'layer2.0.bn1'"):
        prediction_layer(layers, [], "layer2.0.bn")
