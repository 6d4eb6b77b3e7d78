"""DHAuDS: certain and diverse predictions that are consistent under time shifts, with all weights trained."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from holdfast.blocks.losses import generalised_entropy, negative_nuclear_norm, prediction_distance, smoothed_entropy
from holdfast.blocks.views import circular_shift, draw_shifts
from holdfast.methods._base import METHODS
from holdfast.methods._dhauds_settings import PUBLISHED
from holdfast.methods._whole_network import WholeNetwork
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, Momentum, NotNegative, Positive, Share, Whole
from holdfast.randomness import seed_for
from holdfast.records import Update


@METHODS.register("dhauds")
class Dhauds(WholeNetwork):
    """Minimise entropy while keeping predictions diverse and consistent under two circular time shifts of each clip.

    The defaults are the setting published for all criteria of UrbanSound8K with AMAuT. As in the official code, the
    generalised entropy of the first view counts twice, the nuclear norm is approximated and the distance is Euclidean;
    for the paper's formulas pass `both_views`, `exact_nuclear_norm` and `consistency_order=1`. The published runs train
    for several epochs on the test set, the first without momentum and weight decay: pass `batches_per_epoch` for that
    schedule.

    Ours: without `batches_per_epoch` there is one pass with momentum and weight decay; the classifier is the outermost
    module around the last layer with less than half of all weights; and `statistics="batch"` is better online, because
    a few batches move running statistics, which the published predictions use, only part of the way.
    """

    citation = "Shao et al., arXiv 2511.18421"
    passes = "3 forward, 1 backward through two of them"
    keeps = "running statistics; source values of all weights"
    use_when = "audio arrives in batches of many classes from one domain, and all weights may change"
    fails_when = (
        "batches are small or hold few classes: the nuclear-norm loss assumes all classes in every batch; or the first "
        "predictions matter: its statistics start at the source, pass statistics='batch'"
    )
    meanings: ClassVar = {
        "nuclear_weight": "of the loss that keeps predictions diverse",
        "entropy_weight": "of the entropy",
        "generalised_weight": "of the generalised entropy",
        "exponent": "of the generalised entropy (q)",
        "consistency_weight": "of the distance between two views (λ)",
        "both_views": "whether the generalised entropy takes each view once, as in the paper",
        "exact_nuclear_norm": "whether the nuclear norm is exact, as in the paper, or approximated",
        "consistency_order": "norm of the distance: 1 (paper) or 2 (code)",
        "entropy_eps": "added to probabilities inside logarithms",
        "batches_per_epoch": "length of an epoch, for the published schedule; None: one pass at a constant rate",
        "decay_epochs": "number of epochs over which the learning rate decays",
        "decay_strength": "how far it decays over them",
        "steady_epochs": "number of last epochs in which the learning rate stays as it is",
    }
    presets: ClassVar = {name: {**run.options, "epochs": run.epochs} for name, run in PUBLISHED.items()}

    def __init__(
        self,
        model: Classifier,
        *,
        nuclear_weight: NotNegative = 1.0,
        entropy_weight: NotNegative = 1.0,
        generalised_weight: NotNegative = 1.0,
        exponent: Positive = 1.1,
        consistency_weight: NotNegative = 0.1,
        both_views: bool = False,
        exact_nuclear_norm: bool = False,
        consistency_order: Literal[1, 2] = 2,
        entropy_eps: NotNegative = 1e-8,
        feature_lr_share: Share = 0.55,
        batches_per_epoch: Count | None = None,
        decay_epochs: Count = 40,
        decay_strength: NotNegative = 10.0,
        steady_epochs: Whole = 1,
        lr: NotNegative = 1e-4,
        momentum: Momentum = 0.7,
        weight_decay: NotNegative = 1e-3,
        **learning: Any,
    ) -> None:
        if max(nuclear_weight, entropy_weight, generalised_weight, consistency_weight) <= 0:
            raise ValueError(
                "at least one of nuclear_weight, entropy_weight, generalised_weight and consistency_weight must be "
                "positive, and none is"
            )
        self.nuclear_weight, self.entropy_weight = nuclear_weight, entropy_weight
        self.generalised_weight, self.exponent = generalised_weight, exponent  # q
        self.consistency_weight, self.consistency_order = consistency_weight, consistency_order  # λ
        self.both_views, self.exact_nuclear_norm, self.entropy_eps = both_views, exact_nuclear_norm, entropy_eps
        self.batches_per_epoch = batches_per_epoch
        self.decay_epochs, self.decay_strength, self.steady_epochs = decay_epochs, decay_strength, steady_epochs
        super().__init__(
            model, feature_lr_share=feature_lr_share, lr=lr, momentum=momentum, weight_decay=weight_decay, **learning
        )

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the objective on two views of the inputs, shifted forwards and backwards in time."""
        generator = torch.Generator().manual_seed(seed_for(self.seed, "views", self.batches))
        later, earlier = (draw_shifts(inputs.shape, generator) for _ in range(2))
        return self.objective(circular_shift(inputs, later), circular_shift(inputs, -earlier))

    def objective(self, first_view: Tensor, second_view: Tensor) -> Tensor:
        """Return w₁ L_nuclear + w₂ L_entropy + w₃ L_generalised, each summed over both views, + λ L_consistency."""
        with self.training_pass():  # one pass per view, which updates the statistics twice
            first, second = self.model(first_view), self.model(second_view)
        again = second if self.both_views else first
        terms = [
            (self.nuclear_weight, self._nuclear(first) + self._nuclear(second)),
            (self.entropy_weight, self._entropy(first) + self._entropy(second)),
            (self.generalised_weight, self._generalised(first) + self._generalised(again)),
            (self.consistency_weight, prediction_distance(first, second, order=self.consistency_order).mean()),
        ]
        return torch.stack([weight * loss for weight, loss in terms if weight > 0]).sum()

    def _nuclear(self, logits: Tensor) -> Tensor:
        return negative_nuclear_norm(logits, exact=self.exact_nuclear_norm)

    def _entropy(self, logits: Tensor) -> Tensor:
        return smoothed_entropy(logits, eps=self.entropy_eps).mean()

    def _generalised(self, logits: Tensor) -> Tensor:
        return generalised_entropy(logits, exponent=self.exponent).mean()

    def update(self, loss: Tensor, samples: int) -> Update:
        """Take one step with the learning rate, momentum and weight decay of the epoch."""
        if self.batches_per_epoch is not None:
            epoch = (self.batches - 1) // self.batches_per_epoch
            factor = lr_factor(epoch, self.decay_epochs, self.decay_strength, self.steady_epochs)
            for group, (_, lr) in zip(self.param_groups, self.learning_rates(), strict=True):
                group["lr"] = self.lr_scale * factor * lr
                group["momentum"], group["weight_decay"] = (self.momentum, self.weight_decay) if epoch else (0.0, 0.0)
        return super().update(loss, samples)


def lr_factor(epoch: int, decay_epochs: int, decay_strength: float, steady_epochs: int) -> float:
    """Return the factor on the learning rate in an epoch, (1 + γ e / N)^(-3/4) after e epochs.

    The official schedule is updated after an epoch, so the first two epochs are equal, and constant in the last τ of N.

    >>> [round(lr_factor(epoch, 50, 30.0, 35), 4) for epoch in (0, 1, 2, 15, 16)]
    [1.0, 1.0, 0.7029, 0.1863, 0.1863]
    """
    past = max(0, min(epoch, decay_epochs - steady_epochs) - 1)
    return float((1 + decay_strength * past / decay_epochs) ** -0.75)
