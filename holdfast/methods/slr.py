"""SLR: a likelihood-ratio loss whose gradient does not vanish, with a diversity term."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.blocks.frozen_layers import affine_parameters_except
from holdfast.blocks.losses import soft_likelihood_ratio
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Positive, Share

_ADAM = {"optimizer": "adam", "lr": 6e-4}


@METHODS.register("slr")
class Slr(Method):
    """Maximise the likelihood ratio of the predictions while keeping their running average close to uniform.

    Scaling the logits increases the ratio without bound, so the layers that can do it are not trained:
    `frozen_layers="top"` means the layers from the last stage on, a regular expression the layers whose names match,
    None no layers. `clip` bounds the ratio instead by clipping the probabilities, as ROID does. There is no official
    code; the paper does not say how the running average starts, ours starts uniform.
    """

    citation = "Mummadi et al., 2021"
    use_when = "there are many classes, balanced over time, so that the average prediction should be near uniform"
    fails_when = "classes are correlated in time: it spreads predictions over classes that do not occur"
    meanings: ClassVar = {
        "confidence_weight": "of the likelihood ratio (δ)",
        "probs_momentum": "share of itself that the average prediction keeps at each batch (κ)",
        "frozen_layers": "layers that are not trained: top, a regular expression, or None",
        "clip": "largest probability in the ratio; None: no bound",
    }
    presets: ClassVar = {"cifar10-c": _ADAM, "cifar100-c": _ADAM, "imagenet-c": _ADAM, "ccc": _ADAM}
    mean_probs: Tensor

    def __init__(
        self,
        model: Classifier,
        *,
        confidence_weight: NotNegative = 0.025,
        probs_momentum: Share = 0.9,
        frozen_layers: str | None = "top",
        clip: Positive | None = None,
        **learning: Any,
    ) -> None:
        self.frozen_layers = frozen_layers
        super().__init__(model, **learning)
        self.confidence_weight, self.probs_momentum, self.clip = confidence_weight, probs_momentum, clip  # δ, κ
        uniform = torch.full((model.num_classes,), 1 / model.num_classes, dtype=model.dtype, device=model.device)
        self.add_state("mean_probs", uniform)  # π

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics in all layers and train the affine parameters of those that are not frozen."""
        frozen = _top_layers(model) if self.frozen_layers == "top" else self.frozen_layers
        super().prepare(model)
        return affine_parameters_except(model.module, frozen)

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return KL(π ‖ uniform) minus δ times the mean likelihood ratio."""
        mean_probs = logits.softmax(1).mean(0).lerp(self.mean_probs, self.probs_momentum)
        self.mean_probs = mean_probs.detach()
        # The average of a class that is never predicted underflows to zero, and 0 · log 0 would be NaN.
        log_ratios = (len(mean_probs) * mean_probs).clamp_min(torch.finfo(mean_probs.dtype).tiny).log()
        diversity = (mean_probs * log_ratios).sum()
        confidence = soft_likelihood_ratio(logits, clip=self.clip, eps=1e-5).mean()
        return diversity + self.confidence_weight * confidence


def _top_layers(model: Classifier) -> str:
    """Return a pattern that matches the normalisation layers from the last stage on; without stages, the last one."""
    names = list(model.norm_layers())
    last_stage = next((name for name, _ in reversed(model.stages())), None)
    first = next((index for index, name in enumerate(names) if name.startswith(f"{last_stage}.")), -1)
    return "|".join(f"^{re.escape(name)}$" for name in names[first:])
