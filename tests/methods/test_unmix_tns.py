"""UnMIX-TNS: the components and their mixture for each sample."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.mixture_norm import MixtureStatistics
from holdfast.model.adapt import adapt
from holdfast.models.tiny import tiny_resnet


def layer(components: int = 4, **options: float) -> MixtureStatistics:
    norm = nn.BatchNorm2d(6, dtype=torch.float64).eval()
    generator = torch.Generator().manual_seed(1)
    norm.running_mean = torch.randn(6, dtype=torch.float64, generator=generator)
    norm.running_var = torch.rand(6, dtype=torch.float64, generator=generator) + 0.5
    norm.weight = nn.Parameter(torch.rand(6, dtype=torch.float64, generator=generator))
    return MixtureStatistics(norm, generator=torch.Generator().manual_seed(0), components=components, **options)


def samples(count: int) -> Tensor:
    return torch.randn(count, 6, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2 + 1


def test_a_pass_follows_the_equations_component_by_component() -> None:
    norm, features = layer(full_batch_size=10), samples(5)
    mean, var = features.mean((2, 3)), features.var((2, 3), correction=0)
    means, variances = norm.means.clone(), norm.vars.clone()
    expected, fits = torch.empty_like(features), []
    for sample, (own_mean, own_var) in enumerate(zip(mean, var, strict=True)):
        fit = (torch.stack([F.cosine_similarity(own_mean, part, dim=0) for part in means]) / 0.07).softmax(0)
        seen = torch.stack([(1 - p) * part + p * own_mean for p, part in zip(fit, means, strict=True)])
        within = torch.stack([(1 - p) * part + p * own_var for p, part in zip(fit, variances, strict=True)])
        centre, width = seen.mean(0), within.mean(0) + seen.var(0, correction=0)
        scale = norm.weight.detach() / (width + norm.eps).sqrt()
        expected[sample] = (features[sample] - centre.view(-1, 1, 1)) * scale.view(-1, 1, 1)
        fits.append(fit)
    torch.testing.assert_close(norm(features), expected)
    momentum = 1 - 0.9**0.5  # half a full batch
    for k in range(4):
        shift = sum(fit[k] * (own - means[k]) for fit, own in zip(fits, mean, strict=True)) / 5
        torch.testing.assert_close(norm.means[k], means[k] + momentum * shift)
        widening = sum(fit[k] * (own - variances[k]) for fit, own in zip(fits, var, strict=True)) / 5
        torch.testing.assert_close(norm.vars[k], variances[k] + momentum * widening)


def test_the_mixture_starts_with_the_moments_of_the_source() -> None:
    norm = layer(4096)
    torch.testing.assert_close(norm.means.mean(0), norm.source_mean, atol=0.1, rtol=0)
    mixed = norm.vars.mean(0) + norm.means.var(0, correction=0)
    torch.testing.assert_close(mixed, norm.source_var, atol=0, rtol=0.1)
    assert torch.equal(layer(1).means[0], norm.source_mean)
    assert torch.equal(layer(1).vars[0], norm.source_var)


def test_centred_components_start_at_the_source_mean_and_with_its_variance() -> None:
    drawn, centred = layer(16), layer(16, centred=True)
    assert float((drawn.means.mean(0) - drawn.source_mean).abs().max()) > 0.05
    torch.testing.assert_close(centred.means.mean(0), centred.source_mean)
    mixed = layer(4096, centred=True)
    between = mixed.means.var(0, correction=0)
    torch.testing.assert_close(mixed.vars.mean(0) + between, mixed.source_var, atol=0, rtol=0.1)


def test_a_sample_is_normalised_independently_of_the_rest_of_the_batch() -> None:
    norm = layer()
    norm.paused = True
    features = samples(8)
    alone = torch.cat([norm(sample[None]) for sample in features])
    torch.testing.assert_close(norm(features), alone)


def test_paused_layers_and_non_finite_batches_learn_nothing() -> None:
    norm = layer()
    before = norm.means.clone()
    for frozen, features in ((True, samples(4)), (False, samples(4) * float("inf"))):
        norm.paused = frozen
        norm(features)
        assert torch.equal(norm.means, before)


def test_single_values_are_normalised_by_the_source() -> None:
    norm, features = layer(), samples(4)[:, :, :1, :1]
    expected = (features[..., 0, 0] - norm.source_mean) / (norm.source_var + norm.eps).sqrt() * norm.weight
    torch.testing.assert_close(norm(features)[..., 0, 0], expected)


def test_the_seed_spreads_the_components() -> None:
    inputs = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    predictions = [adapt(tiny_resnet(), "unmix_tns", seed=seed)(inputs) for seed in (0, 0, 1)]
    assert torch.equal(predictions[0], predictions[1])
    assert not torch.equal(predictions[0], predictions[2])


def test_no_components_are_refused() -> None:
    with pytest.raises(ValueError, match="components"):
        adapt(tiny_resnet(), "unmix_tns", components=0)
