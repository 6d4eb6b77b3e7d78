"""PEA aligns the embeddings behind every block with those of the source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.source_moments import SourceMoments
from holdfast.blocks.whitening import align, covariance_of, square_root
from holdfast.methods.pea import Pea
from holdfast.model.adapt import adapt
from holdfast.models.classifier import Classifier
from holdfast.models.tiny import tiny_amaut, tiny_resnet, tiny_vit
from holdfast.records import SetupWarning
from holdfast.testing import check_method

RIDGE = 1e-5


class Block(nn.Module):
    """A block whose output is its input times a matrix: embeddings are easy to compute by hand."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.first.weight.data = scale * torch.tensor([[1.0, 0.2, 0.0], [0.0, 1.0, 0.3], [0.1, 0.0, 1.0]])
        self.second.weight.data = torch.eye(3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the next tokens."""
        return self.second(self.first(tokens))


class Tokens(nn.Module):
    """Three blocks over sequences of tokens, a mean and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 3)
        self.blocks = nn.Sequential(Block(1.0), Block(2.0), Block(0.5))
        self.head = nn.Linear(3, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits of (batch, tokens, 3)."""
        return self.head(self.blocks(self.stem(inputs)).mean(1))


@pytest.fixture
def network() -> Tokens:
    torch.manual_seed(0)
    return Tokens().double().eval()


def drawn(seed: int, samples: int = 16, shift: float = 0.0, scale: float = 1.0) -> Tensor:
    values = torch.randn(samples, 5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scale * values + shift


def rows(outputs: Tensor) -> Tensor:
    return outputs.flatten(0, 1)


def root(matrix: Tensor, exponent: float) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    return vectors @ torch.diag(values**exponent) @ vectors.T


def ridged(tokens: Tensor) -> Tensor:
    return torch.cov(tokens.T) + RIDGE * torch.eye(3, dtype=tokens.dtype)


def pea(model: Any) -> Pea:
    assert isinstance(model.method, Pea)
    return model.method


def test_the_first_batch_is_the_formula_by_hand(network: Tokens) -> None:
    source, inputs = drawn(1), drawn(2, shift=2.0, scale=3.0)
    # Pass 1: distances of mean and variance behind each block, scaled to [0, 1].
    scores, of_source, plain = [], [], {"source": network.stem(source), "test": network.stem(inputs)}
    for block in network.blocks:
        plain = {name: block(tokens) for name, tokens in plain.items()}
        clean, test = (rows(plain[name]) for name in ("source", "test"))
        scores.append((clean.mean(0) - test.mean(0)).norm() + (clean.var(0) - test.var(0)).norm())
        of_source.append((clean.mean(0), ridged(clean)))
    weights = (torch.stack(scores) - min(scores)) / (max(scores) - min(scores))
    assert sorted(weights.tolist())[::2] == [0.0, 1.0]
    # Pass 2: whitened with the batch's statistics, coloured with the source's, blended by the weight.
    tokens = network.stem(inputs)
    for block, weight, (mean, covariance) in zip(network.blocks, weights, of_source, strict=True):
        tokens = block(tokens)
        now = rows(tokens)
        aligned = (tokens - now.mean(0)) @ root(ridged(now), -0.5) @ root(covariance, 0.5) + mean
        tokens = tokens + weight * (aligned - tokens) if weight >= 1e-3 else tokens
    expected = network.head(tokens.mean(1))
    logits = adapt(network, "pea", source=[source], example=inputs)(inputs)
    torch.testing.assert_close(logits, expected.detach(), atol=1e-9, rtol=1e-9)


def test_the_furthest_block_gets_the_statistics_of_the_source(network: Tokens) -> None:
    source = drawn(1, 64)
    model = adapt(network, "pea", source=[source], example=source)
    outputs: dict[str, Tensor] = {}
    inputs = drawn(2, 64, shift=4.0, scale=3.0)
    model.predict(inputs)
    weights = pea(model).measured_weights(inputs)
    furthest = max(weights, key=lambda name: weights[name])
    assert weights[furthest] == 1.0
    after = dict(zip((f"blocks.{index}" for index in range(3)), ("blocks.1", "blocks.2", "head"), strict=True))
    part = pea(model).model.module.get_submodule(after[furthest])
    hook = part.register_forward_pre_hook(lambda _, args: outputs.update(seen=args[0].detach()))
    model(inputs)
    hook.remove()
    torch.testing.assert_close(outputs["seen"].flatten(0, -2).mean(0), pea(model).source_means[furthest])


def test_recent_statistics_follow_slowly_and_are_replaced_by_a_jump(network: Tokens) -> None:
    options = {"statistics_momentum": 0.1, "average_momentum": 0.5, "spike_ratio": 1.5}
    model = adapt(network, "pea", source=[drawn(1)], example=drawn(1), **options)
    name, batches = None, [drawn(2, shift=1.0), drawn(3, shift=1.1), drawn(4, shift=1.2), drawn(5, shift=9.0)]
    mean = drift = None
    counts = []
    for batch in batches:
        weights = pea(model).measured_weights(batch)
        name = name or max(weights, key=lambda block: weights[block])
        seen: list[Tensor] = []
        block = pea(model).model.module.get_submodule(name)
        hook = block.register_forward_hook(lambda *call, seen=seen: seen.append(rows(call[2]).mean(0)))
        model(batch)
        hook.remove()
        own = seen[-1]  # of the second pass, before the alignment
        if mean is None or drift is None:
            mean, drift = own, 0.0
        else:
            change = float((own - mean).abs().mean())
            drift = 0.5 * change + 0.5 * drift
            jumps = change > 1.5 * drift
            counts.append(jumps)
            mean = own if jumps else 0.1 * own + 0.9 * mean
        torch.testing.assert_close(pea(model).means[name], mean, atol=1e-9, rtol=1e-9)
    assert counts[0], "the second batch always replaces the first where α γ < 1"
    assert not all(counts)
    assert counts[-1], "a jump of the mean did not replace it"


def test_a_rise_of_the_entropy_drops_the_recent_statistics(network: Tokens) -> None:
    model = adapt(network, "pea", source=[drawn(1)], example=drawn(1), max_entropy_rise=0.0)
    with torch.no_grad():
        pea(model).model.module.get_parameter("head.weight").mul_(20)  # certain predictions
    assert model.step(drawn(2)).recovered is None
    before = pea(model).mean_entropy
    assert before is not None
    with torch.no_grad():
        pea(model).model.module.get_parameter("head.weight").mul_(1e-3)  # uncertain ones
    step = model.step(drawn(3))
    assert step.recovered == "the entropy rose by more than 0"
    assert not pea(model).means
    assert not pea(model).drifts
    assert step.gauges["mean_entropy"] > before


def test_views_are_averaged_and_cost_passes() -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for together in (False, True):
        model = adapt(
            tiny_vit(), "pea", source=[inputs], views=["centre_crop", "flip"], views_together=together, spike_ratio=0.0
        )
        step = model.step(inputs)
        assert step.forwards == 6.0
        # With γ = 0 every update but the first replaces: two more per block and batch if views come one by one.
        updates = sum(weight >= 1e-3 for weight in pea(model).weights.values())
        assert step.gauges["spikes"] == (0 if together else 2 * updates)
    assert adapt(tiny_vit(), "pea", source=[inputs]).step(inputs).forwards == 2.0


def test_mirrored_views_give_mirrored_inputs_the_same_prediction() -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    here, there = (
        adapt(tiny_vit(), "pea", source=[inputs], views=["flip"], views_together=True)(batch)
        for batch in (inputs, inputs.flip(-1))
    )
    torch.testing.assert_close(here, there, atol=1e-4, rtol=1e-4)


def test_official_source_statistics_depend_on_the_batches_and_exact_ones_do_not() -> None:
    tokens = torch.cat([drawn(1), drawn(2, shift=2.0)]).flatten(0, 1)
    split, whole = SourceMoments(tokens[:80]), SourceMoments(tokens)
    split.add(tokens[80:])
    for own, other in ((split.exact(), whole.exact()), (whole.of_tokens(), whole.exact())):
        torch.testing.assert_close(own.mean, other.mean)
        torch.testing.assert_close(own.var, other.var)
        torch.testing.assert_close(own.covariance, other.covariance)
    torch.testing.assert_close(whole.exact().covariance, ridged(tokens))
    official = split.of_tokens()
    # As the official code writes it: the step is taken from the mean before the batch, and from all of it.
    mean, squares = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for batch, seen in ((tokens[:80], 80), (tokens[80:], 160)):
        step = batch.mean(0) - mean
        mean = mean + step * len(batch) / seen
        squares = squares + ((batch - mean + step) * (batch - mean)).sum(0)
    torch.testing.assert_close(official.var, squares / 159)
    assert (official.var > whole.exact().var).all()
    assert official.covariance.trace() < whole.exact().covariance.trace()
    pixels = split.of_pixels()
    torch.testing.assert_close(pixels.var, tokens.var(0, correction=0))
    torch.testing.assert_close(pixels.covariance, (ridged(tokens[:80]) + ridged(tokens[80:])) / 2)


def test_groups_of_channels_are_whitened_by_themselves() -> None:
    tokens, source = rows(drawn(1, 64)) @ torch.rand(3, 3, dtype=torch.float64), rows(drawn(2, 64))
    to_root = square_root(torch.cov(source.T), 2)
    aligned = align(tokens, tokens.mean(0), covariance_of(tokens, tokens.mean(0)), source.mean(0), to_root, 2)
    for group in ([0, 1], [2]):
        own = torch.cov(aligned[:, group].T)
        torch.testing.assert_close(own, torch.cov(source[:, group].T), atol=1e-3, rtol=1e-3)
    assert not to_root[:2, 2].any()


def test_channels_are_found_in_tokens_and_in_maps() -> None:
    transformer, convolutional, audio = (
        Pea(Classifier(network)) for network in (tiny_vit(), tiny_resnet(), tiny_amaut())
    )
    assert {layout.axis for layout in transformer.layouts.values()} == {-1}
    assert {layout.axis for layout in convolutional.layouts.values()} == {1}
    assert [layout.axis for layout in audio.layouts.values()] == [1, -1]


def test_the_class_token_is_measured_where_there_is_one() -> None:
    assert Pea(Classifier(tiny_amaut())).reads_class_token
    assert not Pea(Classifier(tiny_vit())).reads_class_token
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    first, every = (
        pea(adapt(tiny_resnet("group", widths=(8, 8, 8)), "pea", source=[inputs], class_token=token))
        for token in (True, False)
    )
    assert first.measured_weights(inputs**3) == every.measured_weights(inputs**3), "pixels have no class token"
    first, every = (pea(adapt(vit3(), "pea", source=[inputs], class_token=token)) for token in (True, False))
    assert first.measured_weights(inputs**3) != every.measured_weights(inputs**3)


def vit3() -> nn.Module:
    from holdfast.models.vit import ViT

    torch.manual_seed(0)
    return ViT(patch=8, width=16, depth=3, heads=2).eval()


def test_fewer_than_two_blocks_are_left_alone_with_a_warning() -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    network = tiny_resnet("group", widths=(8,))
    with pytest.warns(SetupWarning, match="1 blocks were found"):
        model = adapt(network, "pea", source=[inputs])
    assert torch.equal(model(inputs), network(inputs))


def test_paused_before_the_first_batch_it_is_the_source() -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    network = tiny_vit()
    model = adapt(network, "pea", source=[inputs])
    torch.testing.assert_close(model.predict(inputs**2).logits, network(inputs**2))


def test_estimators_see_the_aligned_network() -> None:
    inputs = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    network = tiny_vit()
    model = adapt(network, "pea", source=[inputs])
    logits = model(inputs**3)
    with model.method.predictor_head():
        torch.testing.assert_close(model.method.predictor(inputs**3), logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.method.predictor(inputs**3), network(inputs**3))


@pytest.mark.parametrize("network", [tiny_vit(), tiny_resnet("group")], ids=["transformer", "convolutions"])
def test_the_contracts_hold_with_blocks_to_align(network: nn.Module) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [torch.rand(size, 3, 32, 32, generator=generator) for size in (4, 4, 3)]
    check_method("pea", network, batches, views=["flip"], group_size=5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group_size": 0}, "group_size of method 'pea' must be a whole number from 1 to"),
        ({"views": ["mirror"]}, "unknown view 'mirror'"),
        ({"source_statistics": "welford"}, "source_statistics of method 'pea' must be"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, KeyError), match=words):
        adapt(tiny_vit(), "pea", source=[torch.rand(2, 3, 32, 32)], **options)
