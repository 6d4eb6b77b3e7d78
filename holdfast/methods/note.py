"""NOTE: instance-aware normalisation, and training on a class-balanced reservoir of past samples."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.blocks.instance_norm import InstanceAwareStatistics
from holdfast.blocks.losses import entropy, smoothed_entropy
from holdfast.blocks.robust_norm import learning_pass
from holdfast.blocks.sample_memory import Choices, ReservoirMemory
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, NotNegative, Share
from holdfast.records import Update

_ADAM = {"optimizer": "adam", "lr": 1e-4}


@METHODS.register("note")
class Note(Method):
    """Normalise outlying samples with their own statistics, and minimise the entropy of a balanced reservoir.

    The authors train the source with this normalisation in place; networks trained with BatchNorm violate this
    assumption. As in the official code, the entropy is averaged over classes too; `class_mean=False` is UniTTA's loss.
    On CIFAR the official scripts unintentionally use a weight decay of 5e-4; we use none.
    """

    citation = "Gong et al., NeurIPS 2022"
    needs_batch_norm = True
    passes = "1 forward; every 64 samples 1 forward and 1 backward on up to 64 stored inputs"
    keeps = "64 inputs; running statistics; source values of the trained parameters"
    use_when = "samples come singly or class-correlated, and the source was trained with this normalisation"
    fails_when = "the source was trained with BatchNorm and has many classes: the correction breaks its features"
    meanings: ClassVar = {
        "capacity": "number of inputs in the memory",
        "every_samples": "number of samples between updates; None: every batch",
        "standard_errors": "deviation beyond which a sample's own statistics count (k)",
        "statistics_momentum": "share of a new update in the running statistics (m)",
        "class_mean": "whether the entropy is divided by the number of classes, as in the official code",
        "choices": "which candidate is replaced: a random one, or the first",
    }
    presets: ClassVar = {
        "cifar10-c": _ADAM,
        "cifar100-c": _ADAM,
        "imagenet-c": _ADAM,
        "unitta": {
            "optimizer": "sgd",
            "lr": 1e-4,
            "momentum": 0.9,
            "nesterov": True,
            "every_samples": None,
            "class_mean": False,
        },
    }

    def __init__(
        self,
        model: Classifier,
        *,
        capacity: Count = 64,
        every_samples: Count | None = 64,
        standard_errors: NotNegative = 4.0,
        statistics_momentum: Share = 0.01,
        class_mean: bool = True,
        choices: Choices = "random",
        **learning: Any,
    ) -> None:
        self.capacity, self.every_samples, self.choices = capacity, every_samples, choices
        self.standard_errors, self.statistics_momentum = standard_errors, statistics_momentum  # k, m
        self.class_mean = class_mean
        super().__init__(model, **learning)
        self.memory = ReservoirMemory(capacity=capacity, every_samples=every_samples, seed=self.seed, choices=choices)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use instance-aware statistics and train the affine parameters."""
        momentum, standard_errors = self.statistics_momentum, self.standard_errors
        layer = partial(InstanceAwareStatistics, momentum=momentum, standard_errors=standard_errors)
        replace_batch_norm(model, layer)
        return super().prepare(model)

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Predict with the running statistics, corrected for each sample."""
        return super().predict(inputs)

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Offer the batch to the memory, and train on the memory every `every_samples` samples."""
        if self.paused:
            return Update()
        self.batches += 1
        classes = (self.predict(inputs) if logits is None else logits).argmax(1)
        return self.memory.feed(inputs, classes, learn=self._learn)

    def _learn(self) -> Update:
        inputs = self.memory.inputs()
        with learning_pass(self.model), torch.enable_grad():
            logits = self.model(inputs)
            loss = smoothed_entropy(logits).mean() / logits.shape[1] if self.class_mean else entropy(logits).mean()
        return self.update(loss, len(inputs))
