"""Taps: the network itself at the source's moments, the formula by hand, and what recent moments are made of."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from tapped_networks import NETWORKS, classifier, inputs
from torch import Tensor, nn

import holdfast
from holdfast.anchor import Anchor, Reference, measure_reference, shift_of, taps_of
from holdfast.blocks.norm import pause
from holdfast.blocks.tap import Explained, Following, Moments, OutputTap, Tap, source_moments
from holdfast.models import Classifier, digits_resnet, tiny_resnet

SAMPLES = 48


def tapped(name: str, *, window: int = SAMPLES) -> tuple[Classifier, Anchor, Reference]:
    """Return a network with taps that know the moments of `inputs(name)`."""
    network, anchor = classifier(name), Anchor(window=window)
    reference = measure_reference(network, inputs(name).split(16))
    anchor.tap(network, source_share=0.5)
    anchor.refer_to(network, reference)
    return network, anchor, reference


@pytest.mark.parametrize("name", NETWORKS)
def test_at_the_moments_of_the_source_a_tapped_network_is_the_network(name: str) -> None:
    given = inputs(name, seed=2)
    with torch.no_grad():
        expected = classifier(name)(given)
    network, _, reference = tapped(name)
    assert len(reference.sites) == NETWORKS[name].sites
    for tap in taps_of(network).values():
        if tap.site.reference is not None:
            assert tap.reference is not None
            tap.site.return_to(tap.reference.mean, tap.reference.var)
    pause(network)
    torch.testing.assert_close(network(given), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_measured_is_what_is_followed(name: str) -> None:
    """A batch of the source's own samples has the source's moments at every layer, and noise has not."""
    network, anchor, _ = tapped(name)
    with torch.no_grad():
        expected = classifier(name)(inputs(name))
        followed = anchor.follow(network, inputs(name))
        clean = shift_of(list(taps_of(network).values()))
        torch.testing.assert_close(followed, expected, atol=1e-3, rtol=1e-3)
        assert clean < 1e-6
        anchor.follow(network, 3 * torch.rand(inputs(name).shape, generator=torch.Generator().manual_seed(3)) - 1)
    assert (shift_of(list(taps_of(network).values())) > 1e-3) == NETWORKS[name].sees_shifts


def test_the_fast_path_of_torch_does_not_pass_the_taps_by() -> None:
    network, anchor, _ = tapped("transformer encoder")
    called: list[str] = []
    for name, tap in taps_of(network).items():
        tap.register_forward_hook(lambda *_, name=name: called.append(name))
    with torch.no_grad():
        anchor.follow(network, inputs("transformer encoder"))
    assert called == ["encoder.layers.0.norm1", "encoder.layers.0.norm2"]


def test_channels_are_found_where_maps_are_as_high_or_as_wide_as_they_are_deep() -> None:
    axes = {
        name: [tap.axis for tap in taps_of(tapped(name)[0]).values()]
        for name in ("layer, as high as deep", "layer, as wide as deep", "layer of maps", "vit")
    }
    assert axes == {
        "layer, as high as deep": [-1],
        "layer, as wide as deep": [1],
        "layer of maps": [-3],
        "vit": [-1] * 5,
    }


def test_a_layer_that_is_called_twice_is_left_as_it_is() -> None:
    network, anchor, reference = tapped("batch norm called twice")
    assert list(reference.sites) == ["own"]
    shared = taps_of(network)["shared"]
    with torch.no_grad():
        anchor.follow(network, 2 * inputs("batch norm called twice", seed=4))
        features = torch.randn(4, 8, 3, 3)
        assert torch.equal(shared(features), shared.by_source(features))
    assert shared.site.mean is None


def test_a_layer_whose_output_turns_is_left_as_it_is() -> None:
    network, anchor, _ = tapped("group")
    tap = next(iter(taps_of(network).values()))
    assert isinstance(tap, OutputTap)
    anchor.follow(network, inputs("group"))
    turned = torch.rand(2, 5, 8)
    assert tap.behind(nn.Identity(), (), turned) is turned


def test_a_tap_that_changes_the_network_is_refused_by_name() -> None:
    for broken in (lambda features, *_: 1.01 * features, lambda features, *_: features[:, :1]):
        network, anchor = classifier("group"), Anchor()
        reference = measure_reference(network, [inputs("group")])
        anchor.tap(network, source_share=0.5)
        taps_of(network)["stages.1.0.norm2"].restate = broken
        with pytest.raises(ValueError, match=r"layer 'stages\.1\.0\.norm2' would change this network"):
            anchor.refer_to(network, reference)


def test_moments_that_are_not_numbers_are_refused_by_the_name_of_their_layer() -> None:
    network, anchor = classifier("batch"), Anchor()
    reference = measure_reference(network, [inputs("batch")])
    name = list(reference.sites)[2]
    nan = Moments(*(torch.full_like(part, torch.nan) for part in vars(reference.sites[name]).values()))
    anchor.tap(network, source_share=0.5)
    with pytest.raises(ValueError, match=f"layer {name!r}"):
        anchor.refer_to(network, Reference({**reference.sites, name: nan}, *list(vars(reference).values())[1:]))


def test_one_channel_by_hand_in_front_of_batch_norm() -> None:
    layer = nn.BatchNorm2d(1, eps=0.5)
    with torch.no_grad():
        for part, value in zip(
            (layer.running_mean, layer.running_var, layer.weight, layer.bias), (2, 4, 3, 1), strict=True
        ):
            assert part is not None
            part.fill_(value)
    tap = Tap(layer, Following(window=0), source_share=0.25)
    tap.refer_to(Moments(torch.tensor([1.0]), torch.tensor([2.0]), torch.zeros(0, 1), torch.zeros(0, 1)))
    tap.site.return_to(torch.tensor([5.0]), torch.tensor([6.0]))
    tap.paused = True
    features = torch.tensor([-1.0, 0.0, 7.0]).view(3, 1, 1, 1)
    mean = 1 + 0.75 * (5 - 1)  # a quarter of the way back to the source
    deviations = math.sqrt((2 + 0.5) / (2 + 0.5 + 0.75 * (6 - 2)))  # of the source, of recent inputs
    restated = (features - mean) * deviations + 1
    torch.testing.assert_close(tap(features), 3 * (restated - 2) / math.sqrt(4 + 0.5) + 1)
    stored = tap.fixed_statistics(None)
    torch.testing.assert_close(tap.normalise(features, *stored), tap(features))
    # ½ ((μ − μ_S)² / σ_S² + r − 1 − log r), r of the variances
    ratio = 6.5 / 2.5
    assert float(tap.shift()) == pytest.approx(0.5 * (4**2 / 2.5 + ratio - 1 - math.log(ratio)), rel=1e-5)


def test_one_channel_by_hand_behind_another_layer() -> None:
    tap = OutputTap(1, Following(window=0), source_share=0.5, axis=-1)
    tap.refer_to(Moments(torch.tensor([1.0]), torch.tensor([4.0]), torch.zeros(0, 1), torch.zeros(0, 1)))
    tap.site.return_to(torch.tensor([3.0]), torch.tensor([12.0]))
    tap.paused = True
    features = torch.tensor([[-1.0], [5.0]])
    torch.testing.assert_close(tap(features), (features - 2) * math.sqrt(4 / 8) + 1, atol=1e-4, rtol=1e-4)


def test_what_classes_explain_is_taken_off_by_hand() -> None:
    following = Following(window=0)
    tap = OutputTap(1, following, source_share=0.0, axis=-1)
    moments = Moments(torch.zeros(1), torch.ones(1), torch.tensor([[-0.5], [0.5]]), torch.zeros(2, 1))
    tap.refer_to(moments)
    following.know(torch.tensor([0, 1]), torch.tensor([0.5, 0.5]))
    tap.site.return_to(torch.tensor([0.8]), torch.tensor([0.75]))
    tap.paused = True
    following.mix = torch.tensor([0.0, 1.0])  # all of the second class: mean 0.5, variance 0.75
    torch.testing.assert_close(tap(torch.tensor([[0.8]])), torch.tensor([[0.5]]), atol=1e-4, rtol=0)
    following.mix = torch.tensor([0.5, 0.5])  # as the source: nothing is explained
    torch.testing.assert_close(tap(torch.tensor([[0.8]])), torch.tensor([[0.0]]), atol=1e-4, rtol=0)
    following.mix = torch.tensor([1.0, 0.0])  # the other way: neither
    torch.testing.assert_close(tap(torch.tensor([[0.8]])), torch.tensor([[0.0]]), atol=1e-4, rtol=0)


def test_what_is_left_of_a_change_is_never_more_and_never_the_other_way() -> None:
    draws = torch.Generator().manual_seed(0)
    whole, explained = (3 * torch.randn(1000, generator=draws) for _ in range(2))
    bounds = explained.clamp_max(0), explained.clamp_min(0)
    proportions = Explained(torch.ones(1), bounds, (bounds[0].exp(), bounds[1].exp()))
    mean, spread = proportions.nearest(whole, whole.exp())
    left, ratio = whole - mean, whole.exp() / spread
    torch.testing.assert_close(ratio.log(), left, atol=1e-4, rtol=1e-4)
    assert (left.abs() <= whole.abs()).all()
    assert (left * whole >= 0).all()
    same = whole * explained > 0
    torch.testing.assert_close(left[same].abs(), (whole.abs() - explained.abs())[same].clamp_min(0))
    assert torch.equal(left[~same], whole[~same])


def test_moments_of_other_proportions_are_those_of_the_samples_in_them() -> None:
    draws = torch.Generator().manual_seed(0)
    predicted = torch.tensor([0, 0, 0, 2, 2, 7])
    means, variances = torch.randn(6, 3, generator=draws), torch.rand(6, 3, generator=draws)
    moments = source_moments(means, variances, predicted, torch.tensor([0, 2]))
    shares = torch.tensor([0.2, 0.8])
    weights = torch.tensor([0.2 / 3] * 3 + [0.8 / 2] * 2 + [0.0])
    mean = weights @ means
    var = weights @ (variances + (means - mean).square())
    distance, variance = moments.of_classes(shares)
    torch.testing.assert_close(moments.mean + distance, mean)
    torch.testing.assert_close(variance, var)


def test_how_much_a_batch_counts_by_hand() -> None:
    following = Following(window=4)
    shares = []
    for samples, memory in ((2, 4), (8, 4), (2, 16), (0, 16), (4, 8)):
        following.count(torch.ones(samples), memory)
        shares.append((float(following.share), float(following.samples or 0)))
    # The source counts as a window of 4; a batch larger than the memory replaces all; a longer memory fills up.
    expected = [(0.5, 4), (1.0, 8), (0.2, 10), (0.0, 10), (0.5, 8)]
    assert [pytest.approx(pair) for pair in expected] == shares


def test_recent_moments_of_two_batches_by_hand() -> None:
    following = Following(window=2)
    tap = OutputTap(1, following, source_share=0.5, axis=-1)
    tap.refer_to(Moments(torch.zeros(1), torch.ones(1), torch.zeros(0, 1), torch.zeros(0, 1)))
    for values in (torch.tensor([[1.0], [3.0]]), torch.tensor([[4.0], [6.0]])):
        following.count(torch.ones(2), memory=4)
        tap(values)
    assert tap.site.mean is not None
    assert tap.site.var is not None
    # ½ source (0, 1), ½ first batch (2, 1): mean 1, variance 1 + 1; then half of that and half of (5, 1)
    assert float(tap.site.mean) == pytest.approx(3.0)
    assert float(tap.site.var) == pytest.approx((2 + 1) / 2 + 0.25 * (5 - 1) ** 2)


def test_the_mix_of_classes_follows_the_source_with_the_same_share() -> None:
    following = Following(window=2)
    following.know(torch.tensor([1, 2]), torch.tensor([0.5, 0.25]))
    following.count(torch.tensor([1.0, 1.0, 0.0]), 4, torch.eye(3)[[1, 2, 1]])  # the last sample shows nothing
    assert following.mix is not None
    torch.testing.assert_close(following.mix, torch.tensor([0.5, 0.375]))


@pytest.mark.parametrize("name", ["batch", "group", "vit"])
def test_batches_of_one_add_up_to_a_batch(name: str) -> None:
    given = inputs(name, 8, seed=5) + 0.5
    one, single = Anchor(window=8), Anchor(window=8)
    networks = [classifier(name) for _ in range(2)]
    reference = measure_reference(networks[0], [inputs(name)])
    for anchor, network in zip((one, single), networks, strict=True):
        anchor.tap(network, source_share=1.0)  # which restates nothing: all see the same features
        anchor.refer_to(network, reference)
        anchor.memory_samples = 10**6
    with torch.no_grad():
        one.follow(networks[0], given)
        for row in given:
            assert torch.isfinite(single.follow(networks[1], row[None])).all()
    assert float(single.following.samples) == float(one.following.samples) == 16
    for tap, other in zip(taps_of(networks[0]).values(), taps_of(networks[1]).values(), strict=True):
        torch.testing.assert_close(other.site.mean, tap.site.mean, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(other.site.var, tap.site.var, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["batch", "group", "vit", "no norm", "instance"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_precisions_follow_as_single_precision_does(name: str, dtype: torch.dtype) -> None:
    network = classifier(name).module
    given, shifted = inputs(name), 0.5 * inputs(name, seed=6) + 0.3
    single = holdfast.adapt(network, source=[given], example=given)
    other = holdfast.adapt(copy.deepcopy(network).to(dtype), source=[given.to(dtype)], example=given)
    for batch in shifted.split(16):
        expected, actual = single(batch), other(batch.to(dtype))
        assert actual.dtype == dtype
    tolerance = 1e-4 if dtype == torch.float64 else 0.08
    torch.testing.assert_close(actual.float().softmax(1), expected.softmax(1), atol=tolerance, rtol=0)
    assert other.method.gauges()["shift"] == pytest.approx(single.method.gauges()["shift"], rel=0.02, abs=1e-4)
    kept = {part.dtype for tap in taps_of(other.method.model).values() for part in tap.site.reference or ()}
    assert kept <= {torch.float32, torch.float64}  # half precision would round the distances away


@pytest.mark.parametrize("name", ["batch", "group", "vit"])
def test_under_autocast_the_anchor_follows_as_without(name: str) -> None:
    given, shifted = inputs(name), 0.5 * inputs(name, seed=6) + 0.3
    plain, cast = (holdfast.adapt(classifier(name).module, source=[given], example=given) for _ in range(2))
    expected = plain(shifted)
    with torch.autocast("cpu", torch.bfloat16):
        actual = cast(shifted)
    torch.testing.assert_close(actual.float().softmax(1), expected.softmax(1), atol=0.08, rtol=0)
    assert cast.method.gauges()["shift"] == pytest.approx(plain.method.gauges()["shift"], rel=0.05)


def test_double_moves_what_taps_keep() -> None:
    model = holdfast.adapt(tiny_resnet(), source=[torch.rand(16, 3, 32, 32)])
    model(torch.rand(16, 3, 32, 32))
    model.double()
    for tap in taps_of(model.method.model).values():
        assert tap.site.reference is not None
        assert {part.dtype for part in (tap.site.mean, tap.site.var, *tap.site.reference)} == {torch.float64}
    assert model(torch.rand(16, 3, 32, 32).double()).dtype == torch.float64


def test_constant_inputs_count_nothing() -> None:
    network, anchor, _ = tapped("batch", window=8)
    blank, real = torch.full((4, 3, 16, 16), 0.7), inputs("batch", 4, seed=7) + 0.2
    source = torch.zeros(4, 5)
    opinion = anchor.judge(network, blank, source=source)
    assert opinion is not None
    assert opinion.shift == 0
    torch.testing.assert_close(opinion.probabilities, opinion.plain)
    opinion = anchor.judge(network, real, source=source)
    assert opinion is not None
    assert opinion.shift > 0
    moved = [tap.site.mean for tap in taps_of(network).values()]
    anchor.judge(network, blank, source=source)
    torch.testing.assert_close([tap.site.mean for tap in taps_of(network).values()], moved, atol=0, rtol=0)


def test_blank_inputs_in_a_batch_leave_the_rest_of_it_alone() -> None:
    real, blank = inputs("batch", 6, seed=8), torch.full((6, 3, 16, 16), 0.7)
    followed = []
    for given in (real, torch.cat([blank, real])):
        network, anchor, _ = tapped("batch", window=6)
        with torch.no_grad():
            followed.append(anchor.follow(network, given)[-6:])
    torch.testing.assert_close(followed[1], followed[0], atol=1e-4, rtol=1e-3)


def test_a_batch_that_is_not_finite_leaves_no_trace() -> None:
    network, anchor, _ = tapped("batch")
    anchor.judge(network, inputs("batch", 8, seed=9), source=torch.eye(8, 5))

    def known() -> list[Tensor | None]:
        moments = [part for tap in taps_of(network).values() for part in (tap.site.mean, tap.site.var)]
        return [*moments, anchor.following.samples, anchor.following.mix, anchor.recent, anchor.recent_source]

    before, bad = known(), inputs("batch", 8, seed=9)
    bad[0, 0, 0, 0] = torch.inf
    assert anchor.judge(network, bad, source=torch.eye(8, 5)) is None
    torch.testing.assert_close(known(), before, atol=0, rtol=0)


def test_logits_of_the_source_that_are_not_finite_tell_nothing() -> None:
    network, anchor, _ = tapped("batch")
    opinion = anchor.judge(network, inputs("batch", 8), source=torch.full((8, 5), torch.nan))
    assert opinion is not None
    assert torch.isfinite(opinion.probabilities).all()
    torch.testing.assert_close(opinion.proportions, torch.full((8, 5), 0.2))
    assert anchor.following.mix is not None
    torch.testing.assert_close(anchor.following.mix, anchor.following.class_shares)


def test_a_prediction_that_learns_nothing_equals_the_one_that_learnt(
    digits: tuple[Tensor, Tensor], source: list[Tensor]
) -> None:
    inputs, labels = digits
    model = holdfast.adapt(digits_resnet(), source=source)
    ones = (2 * inputs[labels == 1][:64]).clamp(0, 1)
    learnt = model(ones)
    torch.testing.assert_close(model.predict(ones).logits, learnt, atol=1e-4, rtol=0)


class Overflowing(nn.Module):
    """A network whose first normalised features can be infinite while its logits are not."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last, self.fc = nn.BatchNorm2d(3), nn.BatchNorm2d(3), nn.Linear(3, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        maps = self.last(self.norm(inputs.exp()).clamp(-5, 5))
        logits: Tensor = self.fc(maps.mean((2, 3)))
        return logits


def test_moments_that_are_not_finite_are_left_out_of_their_tap_alone() -> None:
    network, anchor = Classifier(Overflowing().eval(), example=torch.rand(2, 3, 4, 4)), Anchor()
    reference = measure_reference(network, [torch.rand(8, 3, 4, 4)])
    anchor.tap(network, source_share=0.5)
    anchor.refer_to(network, reference)
    draws = torch.Generator().manual_seed(0)
    assert anchor.judge(network, torch.rand(4, 3, 4, 4, generator=draws)) is not None
    first, last = (taps_of(network)[name].site for name in ("norm", "last"))
    kept, followed = first.mean, last.mean
    assert anchor.judge(network, 200 * torch.rand(4, 3, 4, 4, generator=draws)) is not None
    assert first.mean is not None
    assert last.mean is not None
    torch.testing.assert_close(first.mean, kept, atol=0, rtol=0)
    assert not torch.equal(last.mean, followed)  # type: ignore[arg-type]
    assert torch.isfinite(shift_of(list(taps_of(network).values())))
