"""RoTTA: a teacher that predicts, a student trained on a balanced memory, and slow moving statistics."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.blocks.losses import smoothed_entropy, soft_cross_entropy
from holdfast.blocks.robust_norm import RobustStatistics, learning_pass
from holdfast.blocks.sample_memory import BalancedMemory
from holdfast.blocks.teacher import MovingAverage
from holdfast.blocks.views import View, named_view
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, NotNegative, Share
from holdfast.randomness import seed_for
from holdfast.records import Update

_ADAM = {"optimizer": "adam", "lr": 1e-3}


@METHODS.register("rotta")
class Rotta(Method):
    """Train a student on views of a recent, class-balanced memory; its moving-average teacher predicts.

    Student and teacher keep separate statistics: the student's of the views, the teacher's of the inputs. `fill_first`
    lets the memory fill up before it is balanced, as the copies in SoTTA's and AETTA's code do.
    """

    citation = "Yuan et al., CVPR 2023"
    passes = "1 forward; every 64 samples 2 forward and 1 backward on up to 64 stored inputs"
    keeps = "64 inputs; affine parameters and statistics of the teacher"
    use_when = "classes are correlated in time and domains change (the practical setting), with a BatchNorm network"
    fails_when = "adaptation must be fast: an update moves the statistics by 5 % and the teacher by 0.1 %"
    meanings: ClassVar = {
        "capacity": "number of inputs in the memory",
        "every_samples": "number of samples between updates",
        "timeliness_weight": "of a stored input's age when one is replaced",
        "uncertainty_weight": "of its uncertainty",
        "fill_first": "whether the memory fills up before it is balanced",
        "statistics_momentum": "share of a new update in the running statistics (α)",
        "teacher_momentum": "share of itself that the teacher keeps at each update (1 − ν)",
        "view": "name of the student's augmentation, or a function (inputs, generator) -> inputs",
    }
    presets: ClassVar = {
        "cifar10-c": _ADAM,
        "cifar100-c": _ADAM,
        "imagenet-c": _ADAM,
        "unitta": _ADAM,
        "aetta": {**_ADAM, "fill_first": True},
    }

    def __init__(
        self,
        model: Classifier,
        *,
        capacity: Count = 64,
        every_samples: Count = 64,
        timeliness_weight: NotNegative = 1.0,
        uncertainty_weight: NotNegative = 1.0,
        fill_first: bool = False,
        statistics_momentum: Share = 0.05,
        teacher_momentum: Share = 0.999,
        view: str | View = "tta",
        **learning: Any,
    ) -> None:
        self.capacity, self.every_samples, self.fill_first = capacity, every_samples, fill_first
        self.timeliness_weight, self.uncertainty_weight = timeliness_weight, uncertainty_weight
        self.statistics_momentum, self.teacher_momentum = statistics_momentum, teacher_momentum  # α, 1 − ν
        self.view, self.augment = named_view(view, model.input_spec.kind, model.trial_inputs())
        super().__init__(model, **learning)
        self.memory = BalancedMemory(
            model.num_classes,
            capacity=capacity,
            every_samples=every_samples,
            timeliness_weight=timeliness_weight,
            uncertainty_weight=uncertainty_weight,
            fill_first=fill_first,
        )

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use robust statistics, create the teacher, and train the student's affine parameters."""
        replace_batch_norm(model, partial(RobustStatistics, momentum=self.statistics_momentum))
        trained = super().prepare(model)
        self.teacher = MovingAverage(model, trained, momentum=self.teacher_momentum)
        return trained

    @property
    def predictor(self) -> Classifier:
        """The teacher."""
        return self.teacher.network

    def predict(self, inputs: Tensor) -> Tensor:
        """Predict with the teacher and its stored statistics."""
        logits: Tensor = self.teacher.network(inputs)
        return logits

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Offer the batch to the memory, and train on the memory every `every_samples` samples, mid-batch too."""
        if self.paused:
            return Update()
        self.batches += 1
        logits = self.predict(inputs) if logits is None else logits
        return self.memory.feed(inputs, logits.argmax(1), smoothed_entropy(logits), learn=self._learn)

    def _learn(self) -> Update:
        inputs, ages = self.memory.inputs(), self.memory.ages()
        generator = torch.Generator().manual_seed(seed_for(self.seed, "views", self.memory.offers))
        with learning_pass(self), torch.enable_grad():
            targets = self.teacher.network(inputs)
            logits = self.model(self.augment(inputs, generator))
            timeliness = torch.sigmoid(-ages / self.capacity)  # exp(−a) / (1 + exp(−a))
            loss = (timeliness * soft_cross_entropy(logits, targets)).mean()
        update = self.update(loss, len(inputs))
        self.teacher.follow()
        return update
