"""SoTTA: sharpness-aware entropy minimisation on a class-balanced memory of confident samples."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.blocks.frozen_layers import TOP_LAYERS, affine_parameters_except
from holdfast.blocks.losses import smoothed_entropy
from holdfast.blocks.robust_norm import RunningStatistics, learning_pass
from holdfast.blocks.sample_memory import Choices, ConfidentMemory
from holdfast.blocks.sharpness import climb
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, NotNegative, Share
from holdfast.records import Update

_ADAM = {"optimizer": "adam", "lr": 1e-3}
_AETTA = {**_ADAM, "keep_momentum": True}


@METHODS.register("sotta")
class Sotta(Method):
    """Minimise the entropy of a class-balanced memory of confident inputs at the worst nearby weights.

    The official scripts configure no weight decay, as here, but on CIFAR their code uses 5e-4 (preset `aetta`). Both
    passes of an update change the statistics. GroupNorm layers are trained too; the official code leaves them out.
    """

    citation = "Gong et al., NeurIPS 2023"
    passes = "1 forward; every 64 samples 2 forward and 2 backward on up to 64 stored inputs"
    keeps = "64 inputs; running statistics; source values of the trained parameters"
    use_when = "the stream contains samples of unknown classes, whose predictions are rarely confident"
    fails_when = "no samples are confident after the shift, or the network is confident when it is wrong"
    meanings: ClassVar = {
        "capacity": "number of inputs in the memory",
        "every_samples": "number of samples between updates",
        "min_confidence": "smallest confidence of an input that is stored",
        "statistics_momentum": "share of a new pass in the running statistics",
        "radius": "distance to the worst nearby weights (ρ)",
        "frozen_layers": "regular expression of layers that are not trained",
        "keep_momentum": "whether a reset keeps the momentum of the optimiser, as in AETTA's code",
        "choices": "which candidate is replaced: a random one, or the first",
    }
    presets: ClassVar = {
        "cifar10-c": {**_ADAM, "min_confidence": 0.99},
        "cifar100-c": {**_ADAM, "min_confidence": 0.66},
        "imagenet-c": {**_ADAM, "min_confidence": 0.33},
        "aetta": {**_AETTA, "min_confidence": 0.99, "weight_decay": 5e-4},
        "aetta-cifar100-c": {**_AETTA, "min_confidence": 0.66, "weight_decay": 5e-4},
        "aetta-imagenet-c": {**_AETTA, "min_confidence": 0.33},
    }

    def __init__(
        self,
        model: Classifier,
        *,
        capacity: Count = 64,
        every_samples: Count = 64,
        min_confidence: Share = 0.99,
        statistics_momentum: Share = 0.2,
        radius: NotNegative = 0.05,
        frozen_layers: str | None = TOP_LAYERS,
        choices: Choices = "random",
        keep_momentum: bool = False,
        **learning: Any,
    ) -> None:
        self.capacity, self.every_samples, self.min_confidence = capacity, every_samples, min_confidence
        self.statistics_momentum, self.radius = statistics_momentum, radius
        self.frozen_layers, self.choices, self.keep_momentum = frozen_layers, choices, keep_momentum
        super().__init__(model, **learning)
        options = {"capacity": capacity, "every_samples": every_samples, "seed": self.seed, "choices": choices}
        self.memory = ConfidentMemory(min_confidence=min_confidence, **options)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Keep running statistics and train the affine parameters of all but the top layers."""
        replace_batch_norm(model, partial(RunningStatistics, momentum=self.statistics_momentum))
        super().prepare(model)
        return affine_parameters_except(model.module, self.frozen_layers)

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Predict with the running statistics."""
        return super().predict(inputs)

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Offer the batch to the memory, and train on the memory every `every_samples` samples."""
        if self.paused:
            return Update()
        self.batches += 1
        confidence, classes = (self.predict(inputs) if logits is None else logits).softmax(1).max(1)
        return self.memory.feed(inputs, classes, confidence, learn=self._learn)

    def _learn(self) -> Update:
        if not len(self.memory):
            return Update()
        inputs = self.memory.inputs()
        with learning_pass(self.model), torch.enable_grad():
            nearby = climb(self.model, self.trained, smoothed_entropy(self.model(inputs)).mean(), self.radius)
            self.samples_backwarded += len(inputs)
            loss = smoothed_entropy(nearby(inputs)).mean()
        return self.update(loss, len(inputs))
