"""ROID follows the paper: sample weights, both losses, weight averaging, prior correction."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.methods.roid import Roid
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet


class Given(nn.Module):
    """Return its inputs plus a bias, the only parameter that matters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + 0 * self.norm(inputs) + self.norm.bias


LOGITS = torch.tensor([[6.0, 0, 0, 0], [5, 1, 0, 0], [0, 4, 0, 0], [0, 0, 3, 0], [1, 1, 1, 0]])


def build(**options: object) -> tuple[AdaptedModel, Roid]:
    settings = {"view": "identity", "preset": "imagenet-c", **options}
    model = adapt(Given(), "roid", example=LOGITS, **settings)  # type: ignore[arg-type]
    assert isinstance(model.method, Roid)
    return model, model.method


def test_the_loss_is_that_of_certain_and_diverse_samples() -> None:
    model, method = build(view=lambda inputs, _: inputs / 2)
    mean = torch.tensor([0.7, 0.1, 0.1, 0.1])
    method.mean_probs = mean
    probs = LOGITS.softmax(1)
    diversity = 1 - (probs @ mean) / (probs.norm(dim=1) * mean.norm())
    diversity = (diversity - diversity.min()) / (diversity.max() - diversity.min())
    certainty = (probs * probs.log()).sum(1)
    certainty = (certainty - certainty.min()) / (certainty.max() - certainty.min())
    kept = diversity >= diversity.mean()
    assert kept.tolist() == [False, False, True, True, False]  # frequent predictions are left out
    cut = probs.clamp(max=0.99)
    ratio = -(cut * (cut / (1 - cut) + 1e-5).log()).sum(1)
    viewed = F.log_softmax(LOGITS / 2, 1)
    consistency = -(probs * viewed + viewed.exp() * probs.log()).sum(1) / 2
    weights = (3 * diversity * certainty).exp()
    step = model.step(LOGITS)
    assert step.loss == pytest.approx(float((weights * (ratio + consistency))[kept].sum() / 5), rel=1e-5)
    assert step.forwards == 1 + 2 / 5  # the second pass is over the kept samples


def test_the_mean_prediction_moves_by_a_tenth_of_all_samples() -> None:
    model, method = build(lr=0.0)
    model(LOGITS)
    torch.testing.assert_close(method.mean_probs, 0.9 * torch.full((4,), 0.25) + 0.1 * LOGITS.softmax(1).mean(0))


def test_the_prediction_is_multiplied_by_smoothed_class_shares() -> None:
    shares = LOGITS.softmax(1).mean(0)
    smoothing = 0.25 / shares.max()  # 1/4 classes, more than 1/5 samples
    expected = LOGITS * (shares + smoothing) / (1 + 4 * smoothing)
    torch.testing.assert_close(build()[0](LOGITS), expected)
    torch.testing.assert_close(build(prior_correction=False)[0](LOGITS), LOGITS)


def test_the_correction_changes_the_prediction_and_not_the_update() -> None:
    (model, method), (plain, twin) = build(lr=0.1), build(lr=0.1, prior_correction=False)
    assert model.step(LOGITS).loss == pytest.approx(plain.step(LOGITS).loss, rel=1e-5)
    torch.testing.assert_close(method.trained[1], twin.trained[1])


def test_the_batch_size_divides_the_loss_unless_another_number_is_given() -> None:
    loss, other = build()[0].step(LOGITS).loss, build(loss_divisor=64)[0].step(LOGITS).loss
    assert loss is not None
    assert other == pytest.approx(loss * 5 / 64, rel=1e-5)


def test_weights_are_pulled_to_the_source_after_each_step_and_only_then() -> None:
    model, method = build(lr=0.0, momentum=0.0, nesterov=False)
    with torch.no_grad():
        method.trained[1].fill_(1.0)
    model(LOGITS)
    torch.testing.assert_close(method.trained[1].detach(), torch.full((4,), 0.99))
    assert model.step(LOGITS * float("nan")).skipped
    torch.testing.assert_close(method.trained[1].detach(), torch.full((4,), 0.99))


@pytest.mark.parametrize("size", [1, 4])
def test_equal_images_leave_finite_weights(size: int) -> None:
    model = adapt(tiny_resnet(), "roid")
    batch = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0)).expand(size, 3, 16, 16)
    for _ in range(2):
        assert model.step(batch).loss is not None
    assert all(torch.isfinite(weight).all() for weight in model.method.trained)
