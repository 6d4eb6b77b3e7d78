"""DHAuDS: its objective, its two learning rates, its schedule, and three steps of the official code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.losses import generalised_entropy, negative_nuclear_norm, prediction_distance, smoothed_entropy
from holdfast.blocks.robust_norm import RunningStatistics
from holdfast.blocks.views import circular_shift, draw_shifts
from holdfast.methods import classifier_part
from holdfast.methods._dhauds_settings import PUBLISHED
from holdfast.methods.dhauds import Dhauds, lr_factor
from holdfast.model.adapt import adapt
from holdfast.models import AMAuT, AMAuTVersion, Classifier, tiny_amaut, tiny_resnet


@pytest.fixture
def clips() -> Tensor:
    return torch.rand(8, 1_600, generator=torch.Generator().manual_seed(0)) - 0.5


def without_dropout() -> AMAuT:
    network = tiny_amaut()
    network.backbone.dropout.p = 0.0
    return network


def test_the_objective_is_the_published_sum(clips: Tensor) -> None:
    weights = {"nuclear_weight": 0.3, "entropy_weight": 0.5, "generalised_weight": 0.7, "consistency_weight": 2.0}
    method = Dhauds(Classifier(without_dropout()), exponent=1.6, **weights)
    others = 0.3 * clips.cos()
    twin = without_dropout().train()
    first, second = twin(clips), twin(others)
    expected = 0.3 * (negative_nuclear_norm(first) + negative_nuclear_norm(second))
    expected += 0.5 * (smoothed_entropy(first, eps=1e-8).mean() + smoothed_entropy(second, eps=1e-8).mean())
    expected += 0.7 * 2 * generalised_entropy(first, exponent=1.6).mean()
    expected += 2.0 * prediction_distance(first, second).mean()
    assert method.objective(clips, others).item() == pytest.approx(expected.item(), abs=1e-5)
    # The two passes have updated the statistics twice, as in training, and predictions use them.
    layer = method.model.module.head.norm
    assert isinstance(layer, RunningStatistics)
    assert torch.allclose(layer.mean, twin.head.norm.running_mean, atol=1e-6)
    assert torch.allclose(layer.var, twin.head.norm.running_var, atol=1e-6)
    assert torch.allclose(method.predict(clips), twin.eval()(clips), atol=1e-5)


def test_batch_statistics_replace_running_ones_in_predictions(clips: Tensor) -> None:
    running, batch, batch_norm = (
        adapt(without_dropout(), name, **options)
        for name, options in (("dhauds", {}), ("dhauds", {"statistics": "batch"}), ("batch_norm", {}))
    )
    by_source = without_dropout()(clips)
    assert torch.allclose(running(clips), by_source, atol=1e-5)
    assert torch.allclose(batch(clips), batch_norm(clips), atol=1e-5)
    assert not torch.allclose(by_source, batch_norm(clips), atol=1e-2)
    # Training is the same; a batch that is only predicted changes nothing.
    stored = [model.method.model.module.head.norm.mean for model in (running, batch)]
    assert torch.equal(*stored)
    before = stored[1].clone()
    batch.method.predict(clips)
    assert torch.equal(stored[1], before)
    with pytest.raises(ValueError, match="'running' or 'batch'"):
        adapt(without_dropout(), "dhauds", statistics="source")


def test_paper_and_code_differ_where_they_say_so(clips: Tensor) -> None:
    others = 0.3 * clips.cos()
    as_coded, *papers = (
        Dhauds(Classifier(without_dropout()), **options).objective(clips, others).item()  # type: ignore[arg-type]
        for options in ({}, {"both_views": True}, {"exact_nuclear_norm": True}, {"consistency_order": 1})
    )
    assert all(as_paper != pytest.approx(as_coded, abs=1e-6) for as_paper in papers)


def test_views_are_moved_both_ways_round_the_ends() -> None:
    inputs = torch.arange(200.0).repeat(64, 1)
    steps = draw_shifts(inputs.shape, torch.Generator().manual_seed(0))
    assert 0 <= int(steps.min()) < 5
    assert 28 < int(steps.max()) < 34  # 17 % of 200
    for moved, row, step in zip(circular_shift(inputs, -steps), inputs, steps.tolist(), strict=True):
        assert torch.equal(moved, row.roll(-step))
    images = torch.rand(2, 3, 4, 5)
    assert torch.equal(circular_shift(images, torch.tensor([1, 3]))[1], images[1].roll(3, -1))


def test_the_classifier_learns_faster_than_the_features() -> None:
    method = Dhauds(Classifier(tiny_amaut()), lr=0.01, feature_lr_share=0.4)
    assert classifier_part(method.model) is method.model.module.head
    (features, slow), (classifier, fast) = method.learning_rates()
    assert (slow, fast) == (pytest.approx(0.004), 0.01)
    assert len(classifier) == len(list(method.model.module.head.parameters()))
    assert len(features) + len(classifier) == len(list(tiny_amaut().parameters()))
    assert [group["lr"] for group in method.param_groups] == [pytest.approx(0.004), 0.01]
    assert isinstance(classifier_part(Classifier(tiny_resnet("layer"))), nn.Linear)


def test_the_schedule_is_the_official_one() -> None:
    # After epochs 0, 1, 2, 3, 14 and 19 of (50, 30, 35), and 14 of (40, 10, 1), as the official scheduler gave them.
    rates = {0: 1, 1: 1, 2: 0.7029266564879364, 3: 0.5535833116504121, 15: 0.18627480172627164, 19: 0.18627480172627164}
    assert {epoch: lr_factor(epoch, 50, 30, 35) for epoch in rates} == pytest.approx(rates)
    assert lr_factor(14, 40, 10, 1) == pytest.approx(0.3378378483559883)


def test_batches_per_epoch_sets_the_epoch_and_the_first_has_no_momentum(clips: Tensor) -> None:
    model = adapt(tiny_amaut(), "dhauds", lr=0.01, batches_per_epoch=2, decay_epochs=50, decay_strength=30.0)
    group = model.method.param_groups[1]
    seen = []
    for _ in range(5):
        model(clips)
        seen.append((round(group["lr"], 5), group["momentum"], group["weight_decay"]))
    assert seen == [(0.01, 0, 0), (0.01, 0, 0), (0.01, 0.7, 1e-3), (0.01, 0.7, 1e-3), (0.00703, 0.7, 1e-3)]
    once = adapt(tiny_amaut(), "dhauds").method.param_groups[1]
    assert (once["lr"], once["momentum"], once["weight_decay"]) == (1e-4, 0.7, 1e-3)
    with pytest.raises(ValueError, match="batches_per_epoch of method 'dhauds' must be a whole number from 1 to"):
        adapt(tiny_amaut(), "dhauds", batches_per_epoch=0)


def test_the_published_settings_are_presets() -> None:
    assert len(Dhauds.presets) == len(PUBLISHED) == 100
    assert PUBLISHED["hubert-sc2-END1-L2"].epochs == 35
    assert PUBLISHED["hubert-sc2-END1-L2"].options["entropy_eps"] == 1e-6
    assert {run.batch_size for name, run in PUBLISHED.items() if name.startswith("amaut")} == {70}
    method = adapt(tiny_amaut(), "dhauds", preset="amaut-sc2-ENQ-L2").method
    options = (method.momentum, method.generalised_weight, method.exponent, method.consistency_weight, method.lr)
    assert options == (0.75, 0.1, 2.5, 1.0, 1e-4)
    assert adapt(tiny_amaut(), "dhauds", preset="amaut-vs-TST-L2").method.consistency_weight == 0


def test_training_makes_predictions_more_certain_and_keeps_them_diverse() -> None:
    generator = torch.Generator().manual_seed(1)
    clips = torch.randn(16, 1_600, generator=generator) * torch.linspace(0.1, 1, 16)[:, None]
    model = adapt(without_dropout(), "dhauds", lr=0.01)
    losses = [model.step(clips).loss for _ in range(12)]
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) - 0.2  # type: ignore[arg-type]


def test_three_steps_are_those_of_the_official_code(golden_folder: Path) -> None:
    from safetensors.torch import load_file

    folder = golden_folder / "audio"
    facts = json.loads((folder / "amaut_small.json").read_text())["adapt3"]
    stored = {name: torch.from_numpy(array) for name, array in np.load(folder / "amaut_small.npz").items()}
    sizes = {"token_width": 32, "depth": 2, "heads": 4, "hidden": 64, "dropout": 0.0, "head_widths": (48, 16)}
    front_end = {"mels": 16, "frames": 104, "fft": 64, "window": 64, "hop": 64}
    network = AMAuT(AMAuTVersion(16_000, 1_600, 5, width=8, extra_blocks=(1, 2), **front_end, **sizes))  # type: ignore[arg-type]
    network.front_end = nn.Identity()
    weights = load_file(folder / "amaut_small.safetensors")
    network.load_official({key[10:]: tensor for key, tensor in weights.items() if key.startswith("two_stage.")})
    inputs, others = stored["two_stage_input"], stored["two_stage_input2"]
    method = Dhauds(
        Classifier(network, example=inputs),
        lr=facts["lr"],
        feature_lr_share=facts["backbone_lr_factor"],
        entropy_weight=0.5,
        generalised_weight=0.5,
        batches_per_epoch=1,
        decay_epochs=50,
        decay_strength=30.0,
        steady_epochs=35,
    )
    losses = []
    for _ in range(3):
        method.batches += 1
        losses.append(method.update(method.objective(inputs, others), len(inputs)).loss)
    assert losses == pytest.approx(facts["losses_per_step"], abs=2e-5)
    # One bit of the inputs changes these logits by 4e-4 to 1e-3; double precision differs from the record by 2e-4.
    assert torch.allclose(method.predict(inputs), stored["two_stage_logits_eval_after3steps"], atol=2e-3)
