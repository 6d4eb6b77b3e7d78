"""CoNMix++: pseudo-labels and losses equal the official code's, and are renewed every epoch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.blocks.losses import balanced_agreement, negative_nuclear_norm
from holdfast.blocks.pseudo_labels import nearest_centres, refined_labels
from holdfast.methods.conmix import Conmix
from holdfast.model.adapt import adapt
from holdfast.models import Classifier, tiny_amaut, tiny_resnet

STORED = {
    name: torch.from_numpy(np.asarray(array)) for name, array in np.load(Path(__file__).with_name("conmix.npz")).items()
}
NUCLEAR, CONSISTENCY, LABELS, TOTAL = -2.0267086384705966, 0.7885859829031748, 0.686819657904766, -11.865170702661992


@pytest.fixture
def clips() -> Tensor:
    return torch.rand(12, 1_600, generator=torch.Generator().manual_seed(0)) - 0.5


def labelled(epoch: int) -> tuple[Tensor, Tensor]:
    features = STORED[f"features_epoch{epoch}"]
    logits = STORED["classifier_gain"] * features @ STORED["classifier_weight"].T
    return nearest_centres(features, logits.softmax(1))


def test_pseudo_labels_are_the_official_ones() -> None:
    for epoch in (0, 1):
        labels, soft_labels = labelled(epoch)
        assert torch.equal(labels, STORED[f"pl{epoch}_hard"])
        assert torch.allclose(soft_labels, STORED[f"pl{epoch}_soft"], atol=1e-6)
    refined = refined_labels(*labelled(1), labelled(0)[0])
    assert torch.allclose(refined, STORED["plr_refined1"], atol=1e-6)
    # In the official code the label has no effect; as intended in the paper, it decides.
    meant = refined_labels(*labelled(1), labelled(0)[0], one_hot=True)
    assert torch.equal(meant.argmax(1), labelled(1)[0])


def test_losses_and_their_sum_are_the_official_ones() -> None:
    weak, strong = STORED["logits_weak"].double(), STORED["logits_strong"].double()
    labels = STORED["plr_refined1"][STORED["batch_idx"]].argmax(1)
    mean_probs = STORED["mean_all1"].double()
    assert negative_nuclear_norm(torch.cat([weak, strong]), largest=True).item() == pytest.approx(NUCLEAR, abs=1e-9)
    assert balanced_agreement(weak, strong, mean_probs).mean().item() == pytest.approx(CONSISTENCY, abs=1e-9)
    assert nn.functional.cross_entropy(weak, labels).item() == pytest.approx(LABELS, abs=1e-9)
    method = Conmix(Classifier(tiny_amaut()))
    assert method.objective(weak, strong, labels, mean_probs).item() == pytest.approx(TOTAL, abs=1e-9)
    without = Conmix(Classifier(tiny_amaut()), pseudo_label_weight=0.0)
    expected = TOTAL - 0.2 * LABELS
    assert without.objective(weak, strong, labels, mean_probs).item() == pytest.approx(expected, abs=1e-9)


def test_with_fewer_samples_than_classes_only_the_largest_columns_count() -> None:
    logits = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    norms = logits.softmax(1).square().sum(0).sqrt().sort(descending=True).values
    assert negative_nuclear_norm(logits, largest=True).item() == pytest.approx(-norms[:2].mean().item())


def test_every_batch_of_an_epoch_meets_its_own_labels(clips: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    model = adapt(tiny_amaut(), "conmix", batches_per_epoch=3, lr=0.0)
    method = model.method
    assert isinstance(method, Conmix)
    met: list[Tensor] = []
    objective = method.objective

    def watched(weak: Tensor, strong: Tensor, labels: Tensor, mean_probs: Tensor) -> Tensor:
        met.append(labels)
        assert torch.equal(mean_probs, method.mean_probs)  # type: ignore[arg-type]
        return objective(weak, strong, labels, mean_probs)

    monkeypatch.setattr(method, "objective", watched)
    for seed in (1, 2):
        met.clear()
        order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
        method.begin_epoch(clips.split(5), order)
        for rows in order.split(5):
            model(clips[rows])
        assert method.labels is not None
        assert torch.equal(torch.cat(met), method.labels[order])
    logits, features = method.model.forward_with_features(clips)
    assert method.labels.shape == (12,)
    assert logits.shape[0] == features.shape[0]


def test_the_rate_falls_from_epoch_to_epoch_and_features_learn_slowly(clips: Tensor) -> None:
    model = adapt(tiny_amaut(), "conmix", batches_per_epoch=1, lr=0.01)
    groups = model.method.param_groups
    rates = []
    for _ in range(3):
        model(clips)
        rates.append((groups[0]["lr"], groups[1]["lr"]))
    assert rates[0] == pytest.approx((0.001, 0.01))
    assert rates[2] == pytest.approx((0.001 * 2.2**-0.75, 0.01 * 2.2**-0.75))


def test_strong_views_shift_audio_in_pitch_and_time_and_augment_images() -> None:
    time = torch.arange(16_000) / 16_000
    tone = torch.sin(2 * torch.pi * 400 * time)[None]
    method = Conmix(Classifier(tiny_amaut()))
    higher = method.strong_view(tone.repeat(2, 1), torch.Generator().manual_seed(0))
    assert higher.shape == (2, 16_000)
    assert not torch.equal(higher[0], higher[1])  # each shifted by its own draw
    assert torch.fft.rfft(higher[0]).abs().argmax().item() == pytest.approx(400 * 2 ** (4 / 12), abs=2)
    images = torch.rand(3, 3, 32, 32)
    seen = Conmix(Classifier(tiny_resnet())).strong_view(images, torch.Generator().manual_seed(0))
    assert seen.shape == images.shape


def test_the_published_settings_are_presets() -> None:
    assert len(Conmix.presets) == 24
    assert Conmix.presets["sc2-ENSC-L2"] == {"momentum": 0.9, "epochs": 16}
    assert Conmix.presets["rs-ENSC-L2"]["momentum"] == 0.75
