"""Layers with learning passes equal their formulas, values and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.instance_norm import InstanceAwareStatistics
from holdfast.blocks.norm import BatchNormLayer, pause
from holdfast.blocks.robust_norm import (
    LearningLayer,
    RobustStatistics,
    RunningStatistics,
    learning_pass,
    set_learning,
)

SHAPES = [(6, 3), (6, 3, 5), (6, 3, 4, 4), (1, 3, 4, 4), (2, 3, 2, 2, 2)]
KINDS: dict[int, type[BatchNormLayer]] = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
LAYERS: list[Callable[[BatchNormLayer], LearningLayer]] = [
    RobustStatistics,
    lambda layer: RunningStatistics(layer, momentum=0.2),
    InstanceAwareStatistics,
]


def trained_layer(shape: tuple[int, ...], *, affine: bool = True) -> BatchNormLayer:
    generator = torch.Generator().manual_seed(1)
    layer = KINDS[len(shape)](3, affine=affine).double()
    for values in (layer.running_mean, *layer.parameters()):
        assert values is not None
        values.data = torch.randn(3, generator=generator).double()
    layer.running_var = 0.5 + torch.rand(3, generator=generator).double()
    return layer.eval()


def features_of(shape: tuple[int, ...]) -> Tensor:
    features = torch.randn(shape, generator=torch.Generator().manual_seed(2)).double() * 2 + 1
    return features.requires_grad_()


def normalised(features: Tensor, mean: Tensor, var: Tensor, layer: BatchNormLayer) -> Tensor:
    """Normalise with statistics of shape (channels,) or (batch, channels)."""
    flat = features.reshape(*features.shape[:2], -1)
    mean, var = (values.reshape(-1, 3, 1) for values in (mean, var))
    return (layer.weight[:, None] * (flat - mean) / (var + layer.eps).sqrt() + layer.bias[:, None]).view_as(features)


def same_with_gradients(actual: Tensor, wanted: Tensor, inputs: list[Tensor]) -> None:
    torch.testing.assert_close(actual, wanted)
    toward = torch.randn(actual.shape, generator=torch.Generator().manual_seed(3)).double()
    gradients = (torch.autograd.grad(output, inputs, toward) for output in (actual, wanted))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("shape", SHAPES)
def test_robust_statistics_normalise_with_the_blend_and_keep_it(shape: tuple[int, ...]) -> None:
    source, features = trained_layer(shape), features_of(shape)
    assert source.running_mean is not None
    assert source.running_var is not None
    axes = [axis for axis in range(len(shape)) if axis != 1]
    mean = 0.7 * source.running_mean + 0.3 * features.mean(axes)
    var = 0.7 * source.running_var + 0.3 * features.var(axes, correction=0)
    layer = RobustStatistics(source, momentum=0.3)
    with learning_pass(layer):
        output = layer(features)
    same_with_gradients(output, normalised(features, mean, var, source), [features, *source.parameters()])
    torch.testing.assert_close([layer.mean, layer.var], [mean.detach(), var.detach()])
    torch.testing.assert_close(layer(features), output)  # a prediction uses the stored statistics


@pytest.mark.parametrize("shape", SHAPES)
def test_running_statistics_are_those_of_batch_norm_in_training(shape: tuple[int, ...]) -> None:
    source, features = trained_layer(shape), features_of(shape)
    layer, reference = RunningStatistics(source, momentum=0.2), copy.deepcopy(source)
    reference.momentum = 0.2
    torch.testing.assert_close(layer(features), reference(features))
    reference.weight, reference.bias = source.weight, source.bias
    with learning_pass(layer):
        output = layer(features)
    same_with_gradients(output, reference.train()(features), [features, *source.parameters()])
    torch.testing.assert_close([layer.mean, layer.var], [reference.running_mean, reference.running_var])


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("standard_errors", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_instance_aware_statistics_follow_their_equations(
    shape: tuple[int, ...], standard_errors: float, learning: bool
) -> None:
    source, features = trained_layer(shape), features_of(shape)
    assert source.running_mean is not None
    assert source.running_var is not None
    flat = features.reshape(*shape[:2], -1)
    positions = flat.shape[2]
    mean, var = source.running_mean, source.running_var
    if learning:
        mean, var = flat.mean((0, 2)), flat.var((0, 2))
    wanted_mean, wanted_var = mean.expand(shape[0], 3), var.expand(shape[0], 3)
    if positions > 1:

        def shrink(difference: Tensor, limit: Tensor) -> Tensor:
            return difference.sign() * (difference.abs() - limit).clamp_min(0)

        mean_error = ((var + source.eps) / positions).sqrt()
        var_error = (var + source.eps) * (2 / (positions - 1)) ** 0.5
        wanted_mean = mean + shrink(flat.mean(2) - mean, standard_errors * mean_error)
        wanted_var = (var + shrink(flat.var(2) - var, standard_errors * var_error)).clamp_min(0)
    layer = InstanceAwareStatistics(source, momentum=0.01, standard_errors=standard_errors)
    set_learning(layer, learning)
    output = layer(features)
    same_with_gradients(output, normalised(features, wanted_mean, wanted_var, source), [features, *source.parameters()])
    moved = source.running_mean + learning * 0.01 * (mean - source.running_mean)
    torch.testing.assert_close(layer.mean, moved.detach())


def test_instance_aware_statistics_lie_between_batch_and_instance_normalisation() -> None:
    source, features = trained_layer((6, 3, 4, 4)), features_of((6, 3, 4, 4))
    torch.testing.assert_close(InstanceAwareStatistics(source, standard_errors=1e9)(features), source(features))
    flat = features.flatten(2)
    instance = normalised(features, flat.mean(2), flat.var(2), source)
    torch.testing.assert_close(InstanceAwareStatistics(source, standard_errors=0.0)(features), instance)


@pytest.mark.parametrize("build", LAYERS)
def test_a_paused_layer_and_a_predicting_one_learn_nothing(build: Callable[[BatchNormLayer], LearningLayer]) -> None:
    source, features = trained_layer((6, 3, 4, 4)), features_of((6, 3, 4, 4))
    layer = build(source)
    prediction = layer(features)
    pause(layer)
    with learning_pass(layer):
        torch.testing.assert_close(layer(features), prediction, rtol=0, atol=0)
    assert torch.equal(layer.mean, layer.source_mean)
    assert torch.equal(layer.var, layer.source_var)


@pytest.mark.parametrize("build", LAYERS)
def test_what_is_not_finite_is_not_learnt(build: Callable[[BatchNormLayer], LearningLayer]) -> None:
    layer = build(trained_layer((6, 3, 4, 4)))
    features = features_of((6, 3, 4, 4)).detach()
    features[0, 0, 0, 0] = float("inf")
    with learning_pass(layer):
        layer(features)
    assert torch.equal(layer.mean, layer.source_mean)
    assert torch.equal(layer.var, layer.source_var)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("build", LAYERS)
def test_one_value_per_channel_is_normalised_all_the_same(
    build: Callable[[BatchNormLayer], LearningLayer], affine: bool
) -> None:
    layer = build(trained_layer((1, 3), affine=affine))
    with learning_pass(layer):
        for features in (features_of((1, 3)), features_of((4, 3))):
            assert torch.isfinite(layer(features)).all()
    assert torch.isfinite(layer.var).all()


def test_a_learning_pass_ends_with_an_error_too() -> None:
    layer = RobustStatistics(trained_layer((6, 3)))
    with pytest.raises(RuntimeError), learning_pass(layer):
        layer(torch.zeros(2, 7))
    assert not layer.learning
