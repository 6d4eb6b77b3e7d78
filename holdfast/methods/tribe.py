"""TRIBE: a student, a teacher and the source, all with balanced normalisation."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.balanced_norm import BalancedStatistics, given_labels
from holdfast.blocks.losses import entropy
from holdfast.blocks.teacher import copy_sharing_frozen
from holdfast.blocks.views import View, named_view
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Share
from holdfast.randomness import seed_for
from holdfast.records import Update

_ADAM = {"optimizer": "adam", "lr": 1e-3}


@METHODS.register("tribe")
class Tribe(Method):
    """Train a student on its teacher's confident labels, with the teacher's logits kept close to the source's.

    Student and teacher share their weights and keep separate statistics. A batch without a confident label is skipped;
    in the official code Adam's moments still decay on it.
    """

    citation = "Su et al., AAAI 2024"
    passes = "4 forward, 2 backward"
    keeps = "source values of the trained parameters; three sets of class statistics"
    use_when = "classes are correlated in time or imbalanced, and the budget allows gradient steps"
    fails_when = (
        "the domain changes every few batches: its statistics move slowly; or there are 1000 classes: worse than the "
        "source on ImageNet-C in UniTTA's tables"
    )
    meanings: ClassVar = {
        "class_momentum": "share of a new sample in the statistics of its class (η)",
        "agnostic_share": "part of each update that goes to all classes alike (γ)",
        "entropy_margin": "largest entropy of a confident label, as a share of log(classes) (H₀)",
        "anchor_weight": "of the distance between teacher and source (λ)",
        "view": "name of the student's augmentation, or a function (inputs, generator) -> inputs",
    }
    presets: ClassVar = {
        "cifar10-c": {**_ADAM, "class_momentum": 0.01, "agnostic_share": 0.0, "entropy_margin": 0.05},
        "cifar100-c": {**_ADAM, "class_momentum": 0.05, "agnostic_share": 0.1, "entropy_margin": 0.2},
        "imagenet-c": {**_ADAM, "lr": 5e-4, "class_momentum": 0.5, "agnostic_share": 0.5, "entropy_margin": 0.4},
    }

    def __init__(
        self,
        model: Classifier,
        *,
        class_momentum: Share = 0.01,
        agnostic_share: Share = 0.0,
        entropy_margin: NotNegative = 0.05,
        anchor_weight: NotNegative = 0.5,
        view: str | View = "tta",
        **learning: Any,
    ) -> None:
        self.class_momentum, self.agnostic_share = class_momentum, agnostic_share  # η, γ
        self.entropy_margin, self.anchor_weight = entropy_margin, anchor_weight  # H₀, λ
        self.view, self.augment = named_view(view, model.input_spec.kind, model.trial_inputs())
        super().__init__(model, **learning)
        self.max_entropy = entropy_margin * math.log(model.num_classes)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use the given network as the teacher; the student shares all weights, the source all but the trained ones."""
        stand_in = partial(
            BalancedStatistics,
            num_classes=model.num_classes,
            class_momentum=self.class_momentum,
            agnostic_share=self.agnostic_share,
        )
        replace_batch_norm(model, stand_in)
        trained = self.affine_parameters_of(model)
        self.student, self.anchor = copy_sharing_frozen(model, []), copy_sharing_frozen(model, trained)
        return trained

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Predict with the teacher and the statistics of earlier batches."""
        return super().predict(inputs)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return CE(student, teacher's labels) + λ (teacher − source)² over the teacher's confident samples."""
        generator = torch.Generator().manual_seed(seed_for(self.seed, "view", self.batches))
        with given_labels(self, logits.argmax(1)):  # all three update their statistics
            teacher = self.model(inputs)
            student = self.student(self.augment(inputs, generator))
            with torch.no_grad():
                source = self.anchor(inputs)  # states are saved with this name
        sure = entropy(teacher.detach()) < self.max_entropy
        if not sure.any():
            return None
        teacher, student, source = teacher[sure], student[sure], source[sure]
        return F.cross_entropy(student, teacher.argmax(1)) + self.anchor_weight * F.mse_loss(teacher, source)

    def update(self, loss: Tensor, samples: int) -> Update:
        """Take one optimiser step; the backward pass goes through two networks."""
        return super().update(loss, 2 * samples)
