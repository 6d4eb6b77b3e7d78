"""Class proportions that move the statistics of the inputs are told from a shift of the inputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.anchor import Anchor, Opinion, follow_inputs
from holdfast.anchor.balance import Balance
from holdfast.blocks.norm import pause
from holdfast.blocks.recent_norm import RecentStatistics, explained
from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs
from holdfast.models import digits_resnet, keywords_amaut, tiny_resnet
from holdfast.streams import mixed_domains

CENTRES = torch.tensor([[-0.2, 0.1], [0.2, -0.1]])  # of two classes, each with a deviation of ½


def layer() -> RecentStatistics:
    norm = nn.BatchNorm1d(2)
    norm.running_var = torch.tensor([0.29, 0.26])  # within classes and between them
    return RecentStatistics(norm, source_share=0.5, prior_samples=8)


def shown(labels: Tensor) -> Tensor:
    return torch.ones_like(labels, dtype=torch.bool)


def followed(
    shares: tuple[float, float], *, offset: float = 0.0, size: int = 32, balance: bool = True
) -> RecentStatistics:
    """A layer that has followed batches with these shares of two classes, told apart as the source would."""
    draws = torch.Generator().manual_seed(0)
    found, balanced = layer(), Balance(window=128)
    found.recent.memory_samples = found.balanced.memory_samples = 256
    for _ in range(512 // size):
        labels = torch.multinomial(torch.tensor(shares), size, replacement=True, generator=draws)
        features = CENTRES[labels] + 0.5 * torch.randn(size, 2, generator=draws) + offset
        found.weights = balanced.weigh(labels, shown(labels), 2) if balance else None
        found(features)
    return found


@pytest.mark.parametrize("size", [32, 16])
def test_statistics_of_unequal_classes_come_close_to_those_of_equal_ones(size: int) -> None:
    assert followed((0.9, 0.1), size=size).shift() < 0.5 * followed((0.9, 0.1), size=size, balance=False).shift()


def test_a_shift_of_the_inputs_is_not_taken_for_one_of_the_classes() -> None:
    shifted, plain = followed((0.5, 0.5), offset=1.0), followed((0.5, 0.5), offset=1.0, balance=False)
    torch.testing.assert_close(shifted.fixed_statistics(None), plain.fixed_statistics(None))


def test_a_domain_in_which_all_is_taken_for_one_class_does_not_keep_the_statistics_of_the_one_before() -> None:
    draws = torch.Generator().manual_seed(0)
    weighed, plain, balance = layer(), layer(), Balance(window=128)
    for part in (weighed.recent, weighed.balanced, plain.recent):
        part.memory_samples = 64
    for place in range(8):
        predicted = torch.arange(32) % 2 if place < 4 else torch.zeros(32, dtype=torch.long)
        features = CENTRES[torch.arange(32) % 2] + 0.5 * torch.randn(32, 2, generator=draws) + (0.3 if place > 3 else 0)
        weighed.weights = balance.weigh(predicted, shown(predicted), 2)
        weighed(features), plain(features)
    torch.testing.assert_close(weighed.fixed_statistics(None), plain.fixed_statistics(None))


def test_constant_inputs_do_not_move_statistics() -> None:
    network = follower()
    anchor = Anchor()
    probabilities = torch.full((4, 10), 0.1)
    anchor.judge(network, torch.full((4, 3, 32, 32), 0.7), source=probabilities)
    assert all(part.shift() == 0 for part in network.modules() if isinstance(part, RecentStatistics))
    anchor.judge(network, torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)), source=probabilities)
    assert all(part.shift() > 0 for part in network.modules() if isinstance(part, RecentStatistics))


def test_constant_inputs_do_not_move_class_proportions() -> None:
    network, draws = follower(), torch.Generator().manual_seed(0)
    pause(network, True)  # the network stays as it is
    real, blank = torch.rand(6, 3, 32, 32, generator=draws), torch.full((6, 3, 32, 32), 0.7)
    alone, among, plain = (opinion_of(network, given) for given in (real, torch.cat([blank, real]), blank))
    # Blank inputs have no say in the proportions, and the proportions do in them.
    torch.testing.assert_close(among.probabilities[6:], alone.probabilities, atol=0.02, rtol=0)
    torch.testing.assert_close(plain.probabilities, plain.plain)
    assert (among.probabilities[:6] - among.plain[:6]).abs().max() > 1e-3


def test_constant_inputs_are_of_no_class() -> None:
    balance, real = Balance(window=8), torch.tensor([True, True, False, False])
    found = balance.weigh(torch.tensor([0, 1, 1, 1]), real, 2)
    torch.testing.assert_close(found.values, torch.tensor([[1.0, 1.0, 0.0, 0.0]] * 2))
    balance.follow(torch.tensor([0, 1, 0, 0]), real)
    assert float(balance.trust(2)) == 1  # neither prefers a class


def test_a_batch_that_is_not_finite_leaves_no_trace() -> None:
    network, anchor = follower(), Anchor()
    inputs = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    anchor.judge(network, inputs, source=torch.eye(4, 10))

    def known() -> tuple[object, ...]:
        shifts = [part.shift() for part in network.modules() if isinstance(part, RecentStatistics)]
        return shifts, anchor.balance.predicted, anchor.balance.followed, anchor.recent, anchor.confidences

    before = known()
    assert anchor.judge(network, inputs * torch.inf, source=torch.eye(4, 10)) is None
    torch.testing.assert_close(known(), before, atol=0, rtol=0)


def test_a_source_that_is_not_finite_is_not_preferred_and_leaves_no_trace() -> None:
    network, anchor = follower(), Anchor()
    inputs = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    opinion = anchor.judge(network, inputs, source=torch.full((4, 10), torch.nan))
    assert opinion is not None
    assert opinion.preference == 0
    assert anchor.confidences is not None
    assert not anchor.confidences.any()


def test_ninety_percent_of_one_class_are_explained_and_noise_is_not() -> None:
    data = DATASETS["digits"]("test")
    inputs, labels = as_inputs(data.inputs(np.arange(len(data.labels)))), torch.from_numpy(data.labels)
    draws = torch.Generator().manual_seed(0)
    common = torch.where(labels == 3, 0.9 / (labels == 3).sum(), 0.1 / (labels != 3).sum())
    rare = explained_on([inputs[chosen] for chosen in common.multinomial(256, True, generator=draws).split(64)])
    noisy = inputs[torch.randperm(len(inputs), generator=draws)[:256]]
    noise = explained_on((noisy + 0.3 * torch.randn(noisy.shape, generator=draws)).clamp(0, 1).split(64))
    assert rare > 0.6
    assert noise < 0.1


def test_classes_that_only_the_source_prefers_are_no_reason_to_believe_it() -> None:
    """Corrupted digits between others: the source takes many for one class, and balancing would hide the corruption."""
    stream = mixed_domains(
        DATASETS["digits"]("test"),
        corruptions=["gaussian_noise", "defocus_blur", "snow", "contrast", "brightness"],
        severity=3,
        family="224",
        samples_per_domain=128,
    )
    model, preferences, right, by_source = holdfast.adapt(digits_resnet()), [], 0, 0
    for batch in stream.starting_at(0, stop=512, batch_size=64):
        labels = torch.from_numpy(batch.labels)
        step = model.step(batch.inputs)
        preferences.append(step.gauges["preference"])
        right += int((step.logits.argmax(1) == labels).sum())
        by_source += int((model.source(batch.inputs).argmax(1) == labels).sum())
    assert max(preferences[4:]) < 0.3
    assert right > by_source + 0.03 * 512


@pytest.mark.parametrize("two", [(1, 21), (12, 13)])
def test_two_classes_for_ever_do_not_cost_the_default_accuracy(two: tuple[int, int]) -> None:
    """Their statistics spoil the anchor, which cost 8 and 15 points; the source is surer than it, and is preferred."""
    data, draws = DATASETS["keywords"]("test"), np.random.default_rng(0)
    rows = np.flatnonzero(np.isin(data.labels, two))
    model, right, by_source = holdfast.adapt(keywords_amaut()), 0, 0
    for _ in range(5):
        chosen = draws.choice(rows, 48)
        inputs, labels = as_inputs(data.inputs(chosen)), torch.from_numpy(data.labels[chosen])
        right += int((model(inputs).argmax(1) == labels).sum())
        by_source += int((model.source(inputs).argmax(1) == labels).sum())
    assert right >= by_source - 2


def test_a_prediction_that_learns_nothing_trusts_the_source_as_much() -> None:
    model = holdfast.adapt(digits_resnet())
    data = DATASETS["digits"]("test")
    ones = as_inputs(data.inputs(np.flatnonzero(data.labels == 1)[:64]))
    learning = model.step(ones)
    assert learning.gauges["preference"] > 0.1
    torch.testing.assert_close(model.predict(ones).logits, learning.logits, atol=1e-4, rtol=0)


def explained_on(batches: list[Tensor] | tuple[Tensor, ...]) -> float:
    model = holdfast.adapt(digits_resnet())
    for batch in batches:
        model.step(batch)
    layers = [part for part in model.method.model.modules() if isinstance(part, RecentStatistics)]
    plain, balanced = zip(*(layer.divergences() for layer in layers), strict=True)
    return float(explained(torch.stack(plain).mean(), torch.stack(balanced).mean()))


def opinion_of(network: nn.Module, inputs: Tensor) -> Opinion:
    found = Anchor().judge(network, inputs, learn=False)
    assert found is not None
    return found


def follower() -> holdfast.models.Classifier:
    network = holdfast.models.Classifier(tiny_resnet(widths=(8,))).eval()
    follow_inputs(network, source_share=0.5, window=64)
    return network
