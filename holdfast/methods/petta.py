"""PeTTA: RoTTA whose regularisation and teacher follow a sensor of divergence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.losses import smoothed_entropy, soft_cross_entropy
from holdfast.blocks.robust_norm import RobustStatistics, learning_pass, set_learning
from holdfast.blocks.sample_memory import BalancedMemory
from holdfast.blocks.teacher import MovingAverage, copy_sharing_frozen
from holdfast.blocks.views import View, named_view
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, NotNegative, Share
from holdfast.randomness import seed_for
from holdfast.records import Update

_SOFT = {"optimizer": "adam", "lr": 1e-3}
_HARD = {**_SOFT, "loss_kind": "cross_entropy"}
EPS = 1e-6  # on the source variance of a feature


@METHODS.register("petta")
class Petta(Method):
    """Train a student on a balanced memory, and hold it back the more the features of its teacher diverge.

    The divergence compares running means of the teacher's features, class by class, with those of source inputs. It
    strengthens the pull to the source weights and slows the teacher, which predicts. A loss keeps the student
    near the source network; `moving_source=True` lets its statistics follow the stream, as the official code does by
    accident. Source classes are predicted ones; a class with fewer than two source inputs does not count (the official
    code then computes NaN). `loss_kind` is "symmetric" or, on ImageNet, "cross_entropy".
    """

    citation = "Hoang et al., NeurIPS 2024"
    needs_head = True
    needs_source = True
    passes = "5 forward, 1 backward through two of them, on up to 64 stored inputs after each batch"
    keeps = "64 inputs; affine parameters and statistics of teacher and source; moments of features for each class"
    use_when = "domains recur many times with correlated classes, and RoTTA degrades from visit to visit"
    fails_when = "adaptation must be fast or cheap: as RoTTA, at five passes for each batch"
    meanings: ClassVar = {
        "capacity": "number of inputs in the memory",
        "teacher_rate": "share of the student in the teacher at each update, without divergence (α₀)",
        "source_weight": "of the pull to the source weights, at full divergence (λ₀)",
        "anchor_weight": "of the loss that keeps predictions near those of the source",
        "loss_kind": "symmetric, or cross_entropy for ImageNet",
        "means_momentum": "share of itself that the mean features of a class keep at each batch",
        "statistics_momentum": "share of a new batch in the running statistics",
        "moving_source": "whether the statistics of the source follow the stream, as in the official code",
        "view": "name of the student's augmentation, or a function (inputs, generator) -> inputs",
    }
    presets: ClassVar = {
        "cifar10-c": _SOFT,
        "cifar100-c": _SOFT,
        "imagenet-c": _HARD,
        "domainnet": {**_HARD, "source_weight": 1.0},
    }
    source_means: Tensor | None
    source_vars: Tensor | None
    class_means: Tensor | None
    divergence: float

    def __init__(
        self,
        model: Classifier,
        *,
        capacity: Count = 64,
        teacher_rate: Share = 1e-3,
        source_weight: NotNegative = 10.0,
        anchor_weight: NotNegative = 1.0,
        loss_kind: Literal["symmetric", "cross_entropy"] = "symmetric",
        means_momentum: Share = 0.95,
        statistics_momentum: Share = 0.05,
        moving_source: bool = False,
        view: str | View = "tta",
        **learning: Any,
    ) -> None:
        self.capacity, self.teacher_rate, self.statistics_momentum = capacity, teacher_rate, statistics_momentum  # α_0
        self.source_weight, self.anchor_weight, self.loss_kind = source_weight, anchor_weight, loss_kind  # λ_0
        self.means_momentum, self.moving_source = means_momentum, moving_source
        self.view, self.augment = named_view(view, model.input_spec.kind)
        super().__init__(model, **learning)
        self.augment(torch.zeros(1, *model.input_spec.shape), torch.Generator())  # one that does not fit fails here
        self.memory = BalancedMemory(model.num_classes, capacity=capacity, every_samples=None)
        self.add_state("source_means", None, kept=True)  # (classes, features); NaN for a class without source inputs
        self.add_state("source_vars", None, kept=True)
        self.add_state("class_means", None)  # of the teacher's features on the stream; None: those of the source
        self.add_state("divergence", 0.0)  # γ
        self._features: Tensor | None = None  # of the newest prediction

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use robust statistics, copy teacher and source, and train the student's affine parameters."""
        replace_batch_norm(model, partial(RobustStatistics, momentum=self.statistics_momentum))
        trained = super().prepare(model)
        self.teacher = MovingAverage(model, trained, momentum=1 - self.teacher_rate)
        self.anchor = copy_sharing_frozen(model, trained)  # the source; states are saved with this name
        return trained

    @property
    def predictor(self) -> Classifier:
        """The teacher."""
        return self.teacher.network

    @torch.no_grad()
    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Store mean and variance of every feature for each predicted class of source inputs."""
        moments = torch.zeros(3, self.model.num_classes, self.model.feature_width, dtype=torch.float64)
        for inputs in batches:
            logits, features = self.teacher.network.forward_with_features(inputs)
            values, labels = features.double().cpu(), logits.argmax(1).cpu()
            for power, part in enumerate((torch.ones_like(values), values, values.square())):
                moments[power].index_add_(0, labels, part)
        counts, sums, squares = moments
        if not counts.sum():
            raise ValueError("source holds no batch; pass source=[inputs, …] with unlabelled source inputs")
        means = sums / counts.clamp_min(1)
        variances = (squares - counts * means.square()).clamp_min(0) / (counts - 1).clamp_min(1)
        variances[counts < 2] = -1.0  # this class does not count
        self.source_means, self.source_vars = (
            part.to(self.model.device, self.model.dtype) for part in (means, variances)
        )

    def predict(self, inputs: Tensor) -> Tensor:
        """Predict with the teacher and its stored statistics."""
        logits, self._features = self.teacher.network.forward_with_features(inputs)
        return logits

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Offer the batch to the memory, and train on the memory."""
        if self.paused:
            return Update()
        self.batches += 1
        logits = self.predict(inputs) if logits is None else logits
        labels = logits.argmax(1)
        self.divergence = self._sense(labels)
        return self.memory.feed(inputs, labels, smoothed_entropy(logits), learn=self._learn)

    def _sense(self, labels: Tensor) -> float:
        """Return 1 − exp(−δ), where δ is how far the class means have moved in source deviations, and move them."""
        features = self._features
        if self.source_means is None or self.source_vars is None or features is None:
            return 0.0
        means = self.source_means if self.class_means is None else self.class_means
        # The classes are sorted on the host, which waits for them once.
        known = torch.cat([labels, (self.source_vars[:, 0] >= 0).long()]).tolist()
        predicted, usable = known[: len(labels)], known[len(labels) :]
        counted = [label for label in sorted(set(predicted)) if usable[label]]
        moved = (means[counted] - self.source_means[counted]).square() / (self.source_vars[counted] + EPS)
        means = means.clone()
        for label in sorted(set(predicted)):
            own = features[[row for row, other in enumerate(predicted) if other == label]]
            means[label] = own.mean(0).lerp(means[label], self.means_momentum)
        self.class_means = means
        return 1 - float((-moved.mean()).exp()) if counted else 0.0

    def _learn(self) -> Update:
        inputs = self.memory.inputs()
        generator = torch.Generator().manual_seed(seed_for(self.seed, "views", self.batches))
        with learning_pass(self), torch.enable_grad():
            targets = self.teacher.network(inputs)
            seen = self.model(inputs)  # moves the student's statistics, even where the loss does not use it
            set_learning(self.anchor, self.moving_source)
            source = self.anchor(inputs)
            viewed = self.model(self.augment(inputs, generator))
            loss = self._consistency(seen, viewed, targets) + self.anchor_weight * soft_cross_entropy(viewed, source)
            pull = -torch.stack(
                [
                    F.cosine_similarity(weight.flatten(), origin.flatten(), dim=0)
                    for weight, origin in zip(self.trained, self.source_weights(), strict=True)
                ]
            ).mean()
        update = self.update(loss.mean() + self.divergence * self.source_weight * pull, len(inputs))
        self.teacher.follow(momentum=1 - (1 - self.divergence) * self.teacher_rate)
        return update

    def _consistency(self, seen: Tensor, viewed: Tensor, targets: Tensor) -> Tensor:
        """Return the distance of the student's predictions to the teacher's, (batch,)."""
        if self.loss_kind == "cross_entropy":
            return soft_cross_entropy(viewed, targets)
        of_seen, of_viewed = (
            soft_cross_entropy(own, targets) + soft_cross_entropy(targets, own) for own in (seen, viewed)
        )
        return (of_seen + of_viewed) / 4

    def gauges(self) -> Mapping[str, float]:
        """Return the divergence, from 0 to 1."""
        return {"divergence": self.divergence}
