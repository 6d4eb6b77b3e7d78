"""The base class of methods that train all weights with layers in training mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from holdfast.blocks.norm import BatchNormLayer
from holdfast.blocks.robust_norm import RunningStatistics, learning_pass
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Share
from holdfast.randomness import seed_for

Statistics: TypeAlias = Literal["running", "batch"]


class WholeNetwork(Method):
    """Train all weights, the feature extractor at a share of the learning rate, and predict with running statistics.

    `statistics="batch"` predicts with the statistics of the batch (ours): online, running statistics see too few
    batches to converge.
    """

    needs_norm = False
    meanings: ClassVar = {
        "feature_lr_share": "learning rate of the feature extractor, as a share of `lr`",
        "statistics": "running: predict with running statistics, as published; batch: with those of the batch",
    }

    batches_per_epoch: int | None  # an option of each subclass

    def __init__(
        self,
        model: Classifier,
        *,
        feature_lr_share: Share = 1.0,
        statistics: Statistics = "running",
        **learning: Any,
    ) -> None:
        self.feature_lr_share, self.statistics = feature_lr_share, statistics
        super().__init__(model, **learning)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Update running statistics as in training, and train every parameter."""
        replace_batch_norm(model, self._as_in_training)
        return list(model.parameters())

    def prepare_offline(self, batches_per_epoch: int) -> None:
        """Schedule by epochs of this length, unless the option has set another."""
        if self.batches_per_epoch is None:
            self.batches_per_epoch = batches_per_epoch

    def learning_rates(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return the parameters of the feature extractor, at a share of the rate, and those of the classifier."""
        part = classifier_part(self.model)
        classifier = {id(parameter) for parameter in part.parameters()} if part is not None else set()
        features = [parameter for parameter in self.trained if id(parameter) not in classifier]
        rest = [parameter for parameter in self.trained if id(parameter) in classifier]
        groups = [(features, self.feature_lr_share * self.lr), (rest, self.lr)]
        return [(parameters, lr) for parameters, lr in groups if parameters]

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Predict with the running statistics or those of the batch, without gradients."""
        return super().predict(inputs)

    @contextmanager
    def training_pass(self) -> Iterator[None]:
        """Update statistics and apply dropout as in training, with the method's own random numbers."""
        device = self.model.device
        seed = seed_for(self.seed, "dropout", self.batches)
        with torch.random.fork_rng([device] if device.type == "cuda" else []), learning_pass(self.model):
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                torch.cuda.manual_seed(seed)
            self.model.train()
            try:
                yield
            finally:
                self.model.eval()

    def _as_in_training(self, layer: BatchNormLayer) -> RunningStatistics:
        momentum = 0.1 if layer.momentum is None else layer.momentum
        return RunningStatistics(layer, momentum=momentum, predict_with_batch=self.statistics == "batch")


def classifier_part(model: Classifier) -> nn.Module | None:
    """Return the outermost module around the last layer with less than half of all weights, or None.

    Args:
        model: the network.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> classifier_part(Classifier(tiny_resnet()))
    Linear(in_features=16, out_features=10, bias=True)
    """
    steps = [] if model.head_name is None else model.head_name.split(".")
    around = (model.module.get_submodule(".".join(steps[:end])) for end in range(1, len(steps) + 1))
    half = _weights_in(model) / 2
    return next((part for part in around if _weights_in(part) < half), None)


def _weights_in(part: nn.Module) -> int:
    return sum(parameter.numel() for parameter in part.parameters())
