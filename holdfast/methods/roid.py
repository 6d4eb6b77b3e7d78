"""ROID: a certainty loss on diverse samples, consistency under augmentation, and averaging with the source weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.losses import entropy, soft_cross_entropy, soft_likelihood_ratio
from holdfast.blocks.views import View, named_view
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.models.outputs import Output, logits_of
from holdfast.options.ranges import Count, Positive, Share
from holdfast.randomness import seed_for
from holdfast.records import Update

_CIFAR = {"optimizer": "adam", "lr": 1e-3}
_IMAGENET = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9, "nesterov": True}


@METHODS.register("roid")
class Roid(Method):
    """Sharpen certain, diverse predictions, keep them consistent under views, and average with the source weights.

    As in the official code, logits are multiplied by the smoothed class proportions of the batch; only their order is
    meaningful. `prior_correction=False` returns the logits of the network.
    """

    citation = "Marsden et al., WACV 2024"
    passes = "at most 2 forward, 1 backward through both"
    use_when = "domains change or mix, batches are of medium size, and source accuracy should be preserved"
    fails_when = "classes are strongly correlated in time: the diverse samples of a batch are then its errors"
    meanings: ClassVar = {
        "temperature": "of the weights by certainty and diversity",
        "probs_momentum": "share of itself that the average prediction keeps at each batch",
        "source_share": "weight of the source in each average of weights",
        "view": "name of the augmentation, or a function (inputs, generator) -> inputs",
        "prior_correction": "whether logits are multiplied by smoothed class proportions",
        "loss_divisor": "divides the summed loss; None: the batch size",
    }
    presets: ClassVar = {
        "cifar10-c": _CIFAR,
        "cifar100-c": _CIFAR,
        "imagenet-c": _IMAGENET,
        "ccc": _IMAGENET,
        "unitta": {**_IMAGENET, "lr": 1e-3, "view": "tta"},
    }
    mean_probs: Tensor
    anchor: list[Tensor] | None

    def __init__(
        self,
        model: Classifier,
        *,
        temperature: Positive = 1 / 3,
        probs_momentum: Share = 0.9,
        source_share: Share = 0.01,
        view: str | View = "roid",
        prior_correction: bool = True,
        loss_divisor: Count | None = None,
        **learning: Any,
    ) -> None:
        super().__init__(model, **learning)
        self.temperature, self.probs_momentum, self.source_share = temperature, probs_momentum, source_share
        self.predicts_jointly = prior_correction
        self.prior_correction, self.loss_divisor = prior_correction, loss_divisor  # None: the batch size
        self.view, self.augment = named_view(view, model.input_spec.kind, model.trial_inputs())
        uniform = torch.full((model.num_classes,), 1 / model.num_classes, device=model.device, dtype=model.dtype)
        self.add_state("mean_probs", uniform)  # moving average of the predictions
        self.add_state("anchor", None)  # replaces the source in the averages, after `average_with`
        self._prior = torch.ones_like(uniform)  # of the newest prediction

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logits times the class proportions of the batch."""
        logits = super().predict(inputs)
        if self.prior_correction:
            self._prior = smoothed_class_shares(logits.detach())
        return logits * self._prior

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return Σ ω (SLR + SCE) over the samples more diverse than the mean, divided by the batch size."""
        logits = logits / self._prior
        kept, weights = self._weigh(logits.detach())
        generator = torch.Generator().manual_seed(seed_for(self.seed, "views", self.batches))
        seen, viewed = logits[kept], self.model(self.augment(inputs[kept], generator))
        certainty = soft_likelihood_ratio(seen, clip=0.99, eps=1e-5)
        consistency = (soft_cross_entropy(viewed, seen) + soft_cross_entropy(seen, viewed)) / 2
        return (weights * (certainty + consistency)).sum() / (self.loss_divisor or len(inputs))

    def _weigh(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the indices of the samples to train on and their weights; update the average prediction."""
        probs = logits.softmax(1)
        diversity = unit_range(1 - F.cosine_similarity(self.mean_probs[None], probs, dim=1))
        certainty = unit_range(-entropy(logits))
        kept = (diversity >= diversity.mean()).nonzero()[:, 0]  # the one time that the host waits
        self.mean_probs = probs.mean(0).lerp(self.mean_probs, self.probs_momentum)
        return kept, (diversity * certainty / self.temperature).exp()[kept]

    def update(self, loss: Tensor, samples: int) -> Update:
        """Take one step, then move the weights towards the source by `source_share`."""
        update = super().update(loss, samples)
        if update.loss is not None:
            with torch.no_grad():
                torch._foreach_lerp_(tuple(self.trained), tuple(self.averaged_with()), self.source_share)
        return update

    def averaged_with(self) -> Sequence[Tensor]:
        """Return the weights that the trained ones are averaged with after each step: at first those of the source."""
        return self.source_weights() if self.anchor is None else self.anchor

    def average_with(self, first: Sequence[Tensor]) -> None:
        """Average from now on with these values of the first trained parameters, and the source of the rest."""
        self.anchor = [*first, *(weight.clone() for weight in self.source_weights()[len(first) :])]

    def network_logits(self, logits: Tensor) -> Tensor:
        """Return the logits without the prior correction."""
        return logits / self._prior

    def export(self) -> nn.Module:
        """Return the network, with the prior correction as its last step."""
        network = super().export()
        return PriorCorrected(network, self.model.output) if self.prior_correction else network


class PriorCorrected(nn.Module):
    """A network whose logits are multiplied by the smoothed class proportions of the batch."""

    def __init__(self, network: nn.Module, output: Output = None) -> None:
        super().__init__()
        self.network, self.output = network, output

    def forward(self, inputs: Tensor) -> Tensor:
        """Return corrected logits, (batch, classes)."""
        logits = logits_of(self.network(inputs), len(inputs), self.output)
        return logits * smoothed_class_shares(logits)


def smoothed_class_shares(logits: Tensor) -> Tensor:
    """Return the mean prediction of a batch, smoothed more for smaller batches, (classes,)."""
    samples, classes = logits.shape
    shares = logits.softmax(1).mean(0)
    smoothing = max(1 / samples, 1 / classes) / shares.max()
    return (shares + smoothing) / (1 + smoothing * classes)


def unit_range(values: Tensor) -> Tensor:
    """Scale values linearly to [0, 1]; if all are equal, return ones.

    >>> unit_range(torch.tensor([2.0, 4.0, 3.0])), unit_range(torch.tensor([2.0]))
    (tensor([0.0000, 1.0000, 0.5000]), tensor([1.]))
    """
    lowest, highest = values.aminmax()
    width = highest - lowest
    # The official code divides by zero here, and the network's weights become NaN.
    return torch.where(width > torch.finfo(values.dtype).eps, (values - lowest) / width, 1.0)
