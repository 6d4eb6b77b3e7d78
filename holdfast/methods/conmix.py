"""CoNMix++: pseudo-labels for a whole test set, consistency under a strong augmentation, diverse predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.blocks.losses import balanced_agreement, negative_nuclear_norm
from holdfast.blocks.pseudo_labels import nearest_centres, refined_labels
from holdfast.blocks.views import named_view, shifted_either_way
from holdfast.corruptions.audio import shift_pitch
from holdfast.methods._base import METHODS
from holdfast.methods._whole_network import WholeNetwork
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, Momentum, NotNegative, Share
from holdfast.randomness import seed_for
from holdfast.records import Update

FAMILIES = ("WHN", "ENQ", "END1", "END2", "ENSC", "TST")
FULL_MOMENTUM = ("sc2-WHN", "sc2-ENQ", "sc2-ENSC", "rs-WHN")


@METHODS.register("conmix")
class Conmix(WholeNetwork):
    """Train all weights on pseudo-labels from feature centres, with consistency and diversity losses.

    Pseudo-labels are computed for the whole test set at the start of each epoch; online there is no such set, and they
    are computed for the batch (ours). `pseudo_label_weight=0` leaves them out (Table 9 of DHAuDS). The strong view of
    an audio clip is shifted in pitch and time; that of an image is CoTTA's. The official code also crops the
    spectrogram; here methods receive waveforms, so that any network can be adapted. `one_hot_refinement` refines the
    labels as the paper intends instead of as the code does.
    """

    citation = "Shao et al., arXiv 2507.15523 (CoNMix++); Kumar et al., WACV 2023"
    needs_head = True
    passes = "3 forward, 1 backward through two of them; 1 more forward over the test set per epoch"
    keeps = "running statistics; source values of all weights; a pseudo-label for every sample of the test set"
    use_when = "a complete audio test set is available before predictions are needed, and all weights may change"
    fails_when = "batches are small or hold few classes: the nuclear-norm loss assumes all classes in every batch"
    meanings: ClassVar = {
        "nuclear_weight": "of the loss that keeps predictions diverse",
        "pseudo_label_weight": "of the loss on pseudo-labels; 0 leaves them out",
        "consistency_weight": "of the loss between a clip and its strong view",
        "refinement_trust": "weight of the new label when labels are refined (α)",
        "one_hot_refinement": "whether labels are refined as in the paper instead of as in the code",
        "pitch_semitones": "largest change of pitch in the strong view of a clip",
        "shift_share": "largest shift in time of the strong view, as a share of the clip",
        "batches_per_epoch": "length of an epoch, for the published schedule of the learning rate; None: constant rate",
        "decay_epochs": "number of epochs over which the learning rate decays",
        "decay_strength": "how far it decays over them",
    }
    presets: ClassVar = {
        f"{data}-{family}-{level}": {"momentum": 0.9 if f"{data}-{family}" in FULL_MOMENTUM else 0.75, "epochs": 16}
        for data in ("sc2", "rs")
        for family in FAMILIES
        for level in ("L1", "L2")
    }
    labels: Tensor | None  # pseudo-labels of the test set, from the start of this epoch
    mean_probs: Tensor | None
    order: Tensor | None  # in which this epoch visits the test set
    seen: int

    def __init__(
        self,
        model: Classifier,
        *,
        nuclear_weight: NotNegative = 6.0,
        pseudo_label_weight: NotNegative = 0.2,
        consistency_weight: NotNegative = 0.2,
        refinement_trust: Share = 0.9,
        one_hot_refinement: bool = False,
        pitch_semitones: NotNegative = 4.0,
        shift_share: Share = 0.25,
        feature_lr_share: Share = 0.1,
        batches_per_epoch: Count | None = None,
        decay_epochs: Count = 50,
        decay_strength: NotNegative = 30.0,
        lr: NotNegative = 1e-4,
        momentum: Momentum = 0.75,
        weight_decay: NotNegative = 1e-3,
        **learning: Any,
    ) -> None:
        if model.input_spec.kind == "other" or not model.input_dtype.is_floating_point:
            raise ValueError(
                f"'conmix' compares views of images or waveforms, and the network takes {model.input_dtype} inputs of "
                f"shape {model.input_spec.shape}; choose a method without views, such as 'tent' or 'eta'"
            )
        self.nuclear_weight, self.pseudo_label_weight = nuclear_weight, pseudo_label_weight
        self.consistency_weight, self.refinement_trust = consistency_weight, refinement_trust  # α
        self.one_hot_refinement, self.pitch_semitones, self.shift_share = (
            one_hot_refinement,
            pitch_semitones,
            shift_share,
        )
        self.batches_per_epoch, self.decay_epochs, self.decay_strength = batches_per_epoch, decay_epochs, decay_strength
        super().__init__(
            model, feature_lr_share=feature_lr_share, lr=lr, momentum=momentum, weight_decay=weight_decay, **learning
        )
        for name, default in {"labels": None, "mean_probs": None, "order": None, "seen": 0}.items():
            self.add_state(name, default)

    @torch.no_grad()
    def begin_epoch(self, batches: Iterable[Tensor], order: Tensor) -> None:
        """Pseudo-label the test set by its feature centres, refined with the labels of the previous epoch."""
        outputs = [self.model.forward_with_features(inputs) for inputs in batches]
        probs = torch.cat([logits for logits, _ in outputs]).softmax(1)
        labels, soft_labels = nearest_centres(torch.cat([features for _, features in outputs]), probs)
        if self.labels is not None:
            soft_labels = refined_labels(
                labels, soft_labels, self.labels, trust=self.refinement_trust, one_hot=self.one_hot_refinement
            )
        self.labels, self.mean_probs = soft_labels.argmax(1), probs.mean(0)
        self.order, self.seen = order.to(probs.device), 0

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the objective on the inputs and their strong view, in one pass."""
        generator = Generator().manual_seed(seed_for(self.seed, "views", self.batches))
        labels, mean_probs = self._targets(inputs)
        with self.training_pass():
            weak, strong = self.model(torch.cat([inputs, self.strong_view(inputs, generator)])).chunk(2)
        return self.objective(weak, strong, labels, mean_probs)

    def objective(self, weak: Tensor, strong: Tensor, labels: Tensor, mean_probs: Tensor) -> Tensor:
        """Return w₁ L_nuclear of both views + w₂ cross-entropy to the pseudo-labels + w₃ L_consistency."""
        terms = [
            (self.nuclear_weight, negative_nuclear_norm(torch.cat([weak, strong]), largest=True)),
            (self.pseudo_label_weight, F.cross_entropy(weak, labels)),
            (self.consistency_weight, balanced_agreement(weak, strong, mean_probs).mean()),
        ]
        return torch.stack([weight * loss for weight, loss in terms if weight > 0]).sum()

    def strong_view(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Return audio shifted in pitch and time, or images rotated, blurred and colour-jittered."""
        if self.model.input_spec.kind != "audio":
            return named_view("tta")[1](inputs, generator)
        clips = inputs.detach().float().cpu().numpy()
        shifted = [shift_pitch(clip, self.pitch_semitones) for clip in clips.reshape(-1, clips.shape[-1])]
        higher = torch.stack([torch.from_numpy(clip) for clip in shifted]).view(inputs.shape).to(inputs)
        return shifted_either_way(higher, generator, share=self.shift_share)

    @torch.no_grad()
    def _targets(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return pseudo-labels and mean prediction, from the test set if there is one, else from the batch."""
        if self.order is None or self.labels is None or self.mean_probs is None:
            logits, features = self.model.forward_with_features(inputs)
            probs = logits.softmax(1)
            return nearest_centres(features, probs)[0], probs.mean(0)
        rows = self.order[self.seen : self.seen + len(inputs)]
        self.seen += len(inputs)
        return self.labels[rows], self.mean_probs

    def update(self, loss: Tensor, samples: int) -> Update:
        """Take one step at the epoch's learning rate, (1 + γ e / N)^(-3/4) of the first after e epochs."""
        if self.batches_per_epoch is not None:
            epoch = (self.batches - 1) // self.batches_per_epoch
            factor = (1 + self.decay_strength * epoch / self.decay_epochs) ** -0.75
            for group, (_, lr) in zip(self.param_groups, self.learning_rates(), strict=True):
                group["lr"] = factor * lr
        return super().update(loss, samples)
