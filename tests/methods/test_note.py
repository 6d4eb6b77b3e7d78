"""NOTE follows the paper: instance-aware predictions, and training on a balanced reservoir."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from holdfast.blocks.instance_norm import InstanceAwareStatistics
from holdfast.blocks.robust_norm import learning_pass
from holdfast.methods.note import Note
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet

BATCH = torch.rand(32, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build(**options: Any) -> tuple[AdaptedModel, Note]:
    model = adapt(tiny_resnet(), "note", **{"capacity": 8, "every_samples": 8, **options})
    assert isinstance(model.method, Note)
    return model, model.method


def test_a_sample_is_predicted_the_same_alone_and_among_others() -> None:
    model, method = build()
    model(BATCH)
    together = method.predict(BATCH)
    alone = torch.cat([method.predict(sample) for sample in BATCH.split(1)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_a_sample_unlike_the_rest_is_corrected_and_the_rest_is_not() -> None:
    _, method = build()
    source = tiny_resnet()
    # The first layer still has source statistics: within four standard errors of its mean, it equals BatchNorm.
    layer = next(part for part in method.model.modules() if isinstance(part, InstanceAwareStatistics))
    plain = next(part for part in source.modules() if isinstance(part, torch.nn.BatchNorm2d))
    usual = torch.randn(2, 8, 16, 16, generator=torch.Generator().manual_seed(0))
    features = torch.cat([usual, 3 + 5 * usual[:1]])
    corrected, expected = layer(features), plain(features)
    torch.testing.assert_close(corrected[:2], expected[:2], rtol=1e-4, atol=1e-5)
    assert corrected[2].abs().mean() < 0.5 * expected[2].abs().mean()


@pytest.mark.parametrize(("options", "learnt"), [({}, [False, True, True]), ({"every_samples": None}, [True] * 3)])
def test_it_learns_every_period_or_after_every_batch(options: dict[str, Any], learnt: list[bool]) -> None:
    model, _ = build(**options)
    assert [model.step(batch).loss is not None for batch in BATCH.split([5, 5, 22])] == learnt


@pytest.mark.parametrize("class_mean", [True, False])
def test_the_loss_is_the_mean_entropy_of_what_is_held(class_mean: bool) -> None:
    model, method = build(class_mean=class_mean)
    twin = copy.deepcopy(method)
    loss = model.step(BATCH[:8]).loss
    with learning_pass(twin), torch.no_grad():
        entropy = torch.distributions.Categorical(logits=twin.model(method.memory.inputs())).entropy().mean()
    assert loss == pytest.approx(float(entropy) / (10 if class_mean else 1), rel=1e-4)


def test_an_update_moves_the_statistics_by_a_hundredth() -> None:
    model, method = build()
    layer = next(part for part in method.model.modules() if isinstance(part, InstanceAwareStatistics))
    received: list[torch.Tensor] = []
    layer.register_forward_pre_hook(lambda _, args: received.append(args[0].detach()))
    model(BATCH[:8])
    expected = 0.99 * layer.source_mean + 0.01 * received[-1].mean((0, 2, 3))
    torch.testing.assert_close(layer.mean, expected)


def test_unitta_runs_it_another_way() -> None:
    model = adapt(tiny_resnet(), "note", preset="unitta")
    options = model.recipe["options"]
    assert (options["optimizer"], options["every_samples"], options["class_mean"]) == ("sgd", None, False)


def test_networks_without_batch_norm_are_refused_with_an_alternative() -> None:
    with pytest.raises(ValueError, match="'tent'"):
        adapt(tiny_resnet("group"), "note")
