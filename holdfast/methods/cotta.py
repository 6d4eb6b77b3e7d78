"""CoTTA: a student, a teacher that is its moving average, and the source, whose confidence decides."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.blocks.losses import soft_cross_entropy
from holdfast.blocks.norm import BatchStatistics
from holdfast.blocks.teacher import MovingAverage, copy_sharing_frozen
from holdfast.blocks.views import View, named_view
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, NotNegative, Share
from holdfast.randomness import seed_for
from holdfast.records import Update

_CIFAR = {"optimizer": "adam", "lr": 1e-3, "symmetric": False, "restore_share": 0.01}
_NESTEROV = {"optimizer": "sgd", "momentum": 0.9, "nesterov": True}
_IMAGENET = {**_NESTEROV, "lr": 0.01, "symmetric": True, "restore_share": 1e-3, "confidence_threshold": 0.1}


@METHODS.register("cotta")
class Cotta(Method):
    """Train a student on its moving-average teacher, which predicts with augmentations when the source is uncertain.

    The threshold applies to the mean confidence of the batch, as in all published code; the paper's formula applies it
    to each image. The recipe of this name adds the paper's stochastic restoration.
    """

    citation = "Wang et al., CVPR 2022"
    needs_norm = False
    predicts_jointly = True
    passes = "34 forward, 1 backward; 3 forward where the source is confident"
    keeps = "two more copies of the trained weights: the teacher's and the source's"
    use_when = "compute is plentiful, and all weights may change slowly over a long stream of changing domains"
    fails_when = (
        "batches are small or the network is a transformer: all weights move, and the published rates are too high"
    )
    meanings: ClassVar = {
        "trainable": "all weights, or affine: those of normalisation layers",
        "confidence_threshold": "mean confidence of the source below which the teacher averages over views",
        "views": "number of views it averages over",
        "view": "name of the augmentation, or a function (inputs, generator) -> inputs",
        "symmetric": "whether the loss averages the cross-entropy in both directions",
        "teacher_momentum": "share of itself that the teacher keeps at each update",
    }
    presets: ClassVar = {
        "cifar10-c": {**_CIFAR, "confidence_threshold": 0.92},
        "cifar100-c": {**_CIFAR, "confidence_threshold": 0.72},
        "imagenet-c": _IMAGENET,
        "ccc": {**_IMAGENET, "trainable": "affine"},
        # Where these two differ from the official settings; UniTTA's are the official ones on CIFAR.
        "unitta": {**_IMAGENET, "optimizer": "adam", "lr": 5e-4, "nesterov": False, "symmetric": False},
        "aetta": {**_CIFAR, **_NESTEROV, "lr": 1e-3, "weight_decay": 5e-4, "confidence_threshold": 0.92},
    }

    def __init__(
        self,
        model: Classifier,
        *,
        trainable: Literal["all", "affine"] = "all",
        confidence_threshold: NotNegative = 0.92,
        views: Count = 32,
        view: str | View = "tta",
        symmetric: bool = False,
        teacher_momentum: Share = 0.999,
        **learning: Any,
    ) -> None:
        self.trainable, self.teacher_momentum, self.symmetric = trainable, teacher_momentum, symmetric
        self.confidence_threshold, self.views = confidence_threshold, views
        self.view, self.augment = named_view(view, model.input_spec.kind, model.trial_inputs())
        super().__init__(model, **learning)
        # Student and teacher are reset from the tensors of this copy of the source, without another one.
        source = {name: weight.detach() for name, weight in self.anchor.named_parameters()}
        for name in self._origin:
            own = name.removeprefix("model.").removeprefix("teacher.network.")
            self._origin[name] = source.get(own, self._origin[name])

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics, copy teacher and source, and train the affine parameters or all weights and biases."""
        if self.trainable == "affine":
            trained = super().prepare(model)
        else:
            replace_batch_norm(model, BatchStatistics)
            trained = weights_and_biases(model)
        self.teacher = MovingAverage(model, trained, momentum=self.teacher_momentum)
        self.anchor = copy_sharing_frozen(model, trained)  # the source; states are saved with this name
        return trained

    @property
    def predictor(self) -> Classifier:
        """The teacher."""
        return self.teacher.network

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the teacher's logits, averaged over views if the source is uncertain about the batch."""
        logits: Tensor = self._ensemble()(inputs)
        return logits

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the student's mean cross-entropy to the teacher's prediction; `symmetric` averages both directions."""
        student = self.model(inputs)
        to_teacher = soft_cross_entropy(student, logits).mean()
        if not self.symmetric:
            return to_teacher
        return (to_teacher + soft_cross_entropy(logits, student).mean()) / 2

    def update(self, loss: Tensor, samples: int) -> Update:
        """Update the student, then the teacher."""
        update = super().update(loss, samples)
        if update.loss is not None:
            self.teacher.follow()
        return update

    def export(self) -> nn.Module:
        """Return teacher and source as one module that no longer adapts, with the views of the next batch."""
        return copy.deepcopy(self._ensemble()).eval().requires_grad_(False)

    def _ensemble(self) -> Ensemble:
        seed = seed_for(self.seed, "views", self.batches)
        return Ensemble(self.teacher.network, self.anchor, self.augment, self.views, self.confidence_threshold, seed)


class Ensemble(nn.Module):
    """Average a teacher's logits over views of the batches that the source is uncertain about."""

    def __init__(
        self, teacher: nn.Module, source: nn.Module, view: View, views: int, confidence_threshold: float, seed: int
    ) -> None:
        super().__init__()
        self.teacher, self.source = teacher, source
        self.view, self.views, self.confidence_threshold, self.seed = view, views, confidence_threshold, seed

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits, (batch, classes)."""
        confidence = self.source(inputs).softmax(1).amax(1).mean()
        if confidence >= self.confidence_threshold:
            logits: Tensor = self.teacher(inputs)
            return logits
        generator = torch.Generator().manual_seed(self.seed)
        # One pass per view: with batch statistics, two views in one batch would change each other's prediction.
        return torch.stack([self.teacher(self.view(inputs, generator)) for _ in range(self.views)]).mean(0)


def weights_and_biases(network: nn.Module) -> list[nn.Parameter]:
    """Return all parameters named weight or bias; others, such as class tokens, are not trained."""
    named = (item for module in network.modules() for item in module.named_parameters(recurse=False))
    # By identity, so that tied weights are listed once.
    return list({id(parameter): parameter for name, parameter in named if name in ("weight", "bias")}.values())
