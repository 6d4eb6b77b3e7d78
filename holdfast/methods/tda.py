"""TDA: correct the logits by caches of confident and of uncertain features."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.losses import entropy
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import patched
from holdfast.options.ranges import Count, NotNegative, Share, Whole


@METHODS.register("tda")
class Tda(Method):
    """Add to each logit the similarity to confident features of its class; subtract that of uncertain features.

    The positive cache keeps the `positives` features of lowest entropy for each predicted class, the negative cache
    the `negatives` whose entropy is within `uncertain`, with the classes they may be: those of a probability above
    `possible`. With the cosine c between a sample and a cached feature, the logits become
    z + α Σ⁺ exp(−β (1 − c)) − α⁻ Σ⁻ exp(−β⁻ (1 − c)). The samples of a batch come one after the other, and each is
    cached before it is predicted. As in the official code, entropies in nats are divided by log₂ of the number of
    classes. It was published for CLIP (`clip:…`), whose logits are cosines times 100, and works with any network that
    has a last linear layer.
    """

    citation = "Karmanov et al., CVPR 2024"
    needs_head = True
    needs_norm = False
    passes = "1 forward"
    keeps = "at most positives + negatives features of each class"
    predicts = "after"
    use_when = "a vision-language model or another network with a meaningful last layer predicts one sample at a time"
    fails_when = "confident predictions are wrong, which the cache then confirms; or logits are not of the scale of α"
    meanings: ClassVar = {
        "positives": "number of confident features kept for each class",
        "strength": "weight of the positive cache (α)",
        "sharpness": "decay of its similarity (β)",
        "negatives": "number of uncertain features kept for each class; 0: no negative cache",
        "negative_strength": "weight of the negative cache (α⁻)",
        "negative_sharpness": "decay of its similarity (β⁻)",
        "uncertain": "lowest and highest relative entropy of a negative feature",
        "possible": "lowest probability of a class that a negative feature may be",
    }
    presets: ClassVar = {
        "imagenet": {"strength": 2.0, "sharpness": 5.0},
        "imagenet-v2": {"strength": 1.0, "sharpness": 8.0},
        "imagenet-sketch": {"strength": 2.363, "sharpness": 7.45},
        "dtd": {"strength": 2.0, "sharpness": 3.0},
        "eurosat": {"strength": 4.0, "sharpness": 8.0},
    }
    positive_features: Tensor  # (kept, width), of unit length
    positive_labels: list[int]
    positive_entropies: list[float]
    positive_classes: Tensor  # (kept, classes): to whose logits they are added
    negative_features: Tensor
    negative_labels: list[int]
    negative_entropies: list[float]
    negative_classes: Tensor  # from whose logits they are subtracted: all that they may be

    def __init__(
        self,
        model: Classifier,
        *,
        positives: Count = 3,
        strength: NotNegative = 2.0,
        sharpness: NotNegative = 5.0,
        negatives: Whole = 2,
        negative_strength: NotNegative = 0.117,
        negative_sharpness: NotNegative = 1.0,
        uncertain: tuple[float, float] = (0.2, 0.5),
        possible: Share = 0.03,
        seed: int = 0,
    ) -> None:
        if not 0 <= uncertain[0] <= uncertain[1]:
            raise ValueError(f"uncertain must be two rising entropies from 0 on, got {tuple(uncertain)}")
        self.positives, self.strength, self.sharpness = positives, strength, sharpness
        self.negatives, self.negative_strength, self.negative_sharpness = (
            negatives,
            negative_strength,
            negative_sharpness,
        )
        self.uncertain, self.possible = (float(uncertain[0]), float(uncertain[1])), possible
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Start with empty caches; train nothing."""
        for kind in ("positive", "negative"):
            for name, width in (("features", model.feature_width), ("classes", model.num_classes)):
                self.add_state(f"{kind}_{name}", torch.zeros(0, width, dtype=model.dtype, device=model.device))
            self.add_state(f"{kind}_labels", [])
            self.add_state(f"{kind}_entropies", [])
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Cache each sample, then correct its logits."""
        logits, features = self.model.forward_with_features(inputs)
        newest = logits.detach().argmax(1), entropy(logits.detach())
        labels, entropies = torch.stack([part.double() for part in newest]).tolist()  # the host waits once
        if self.paused or not all(map(math.isfinite, entropies)):
            return logits + self._correction(features)
        probs = logits.detach().softmax(1)
        itself = F.one_hot(newest[0], logits.shape[1]).to(probs)
        maybe = ((probs > self.possible) & (probs < 1)).to(probs)
        units = F.normalize(features.detach().flatten(1), dim=1)
        corrections = []
        for row, (label, uncertainty) in enumerate(zip(map(int, labels), entropies, strict=True)):
            self._keep("positive", self.positives, label, uncertainty, units[row], itself[row])
            if self.uncertain[0] < uncertainty / math.log2(self.model.num_classes) < self.uncertain[1]:
                self._keep("negative", self.negatives, label, uncertainty, units[row], maybe[row])
            corrections.append(self._correction(features[row][None]))
        return logits + torch.cat(corrections)

    def predictor_head(self) -> AbstractContextManager[None]:
        """Correct the logits of the last layer while the context is open."""
        assert self.model.head is not None
        return patched(self.model.head, _corrected(self.model.head.forward, self._correction))

    def export(self) -> nn.Module:
        """Return the network with the caches built into its last layer."""
        exported, name = super().export(), self.model.head_name or ""
        cached = _CachedHead(exported.get_submodule(name), self)
        parent, _, child = name.rpartition(".")
        if not name:
            return cached
        setattr(exported.get_submodule(parent), child, cached)
        return exported

    def _keep(self, kind: str, capacity: int, label: int, uncertainty: float, feature: Tensor, classes: Tensor) -> None:
        """Add a feature, if its predicted class has room or holds one with a higher entropy."""
        labels, entropies = getattr(self, f"{kind}_labels"), getattr(self, f"{kind}_entropies")
        same = [row for row, other in enumerate(labels) if other == label]
        left_out = len(labels)  # the one to replace; none
        if len(same) >= capacity:
            left_out = max(same, key=lambda row: entropies[row], default=left_out)
            if not same or not uncertainty < entropies[left_out]:
                return
        for name, value in (("features", feature), ("classes", classes)):
            kept = getattr(self, f"{kind}_{name}")
            rows = [kept[:left_out], kept[left_out + 1 :], value[None].to(kept.dtype)]
            setattr(self, f"{kind}_{name}", torch.cat(rows))
        setattr(self, f"{kind}_labels", [*labels[:left_out], *labels[left_out + 1 :], label])
        setattr(self, f"{kind}_entropies", [*entropies[:left_out], *entropies[left_out + 1 :], uncertainty])

    def _correction(self, features: Tensor) -> Tensor:
        """Return what the caches add to the logits of features, (batch, classes)."""
        caches = (
            (getattr(self, f"{kind}_features"), getattr(self, f"{kind}_classes"), *weights)
            for kind, weights in self.weights.items()
        )
        return _correction(features, *caches)

    @property
    def weights(self) -> dict[str, tuple[float, float]]:
        """Strength and sharpness of each cache; the negative one is subtracted."""
        return {
            "positive": (self.strength, self.sharpness),
            "negative": (-self.negative_strength, self.negative_sharpness),
        }


def _correction(features: Tensor, *caches: tuple[Tensor, Tensor, float, float]) -> Tensor:
    """Return Σ α exp(−β (1 − c)) of all cached features, for the classes of each, (batch, classes)."""
    features = F.normalize(features.flatten(1), dim=1)
    added = features.new_zeros(())
    for cached, classes, strength, sharpness in caches:
        cosines = features @ cached.to(features.dtype).T  # (batch, kept)
        added = added + strength * torch.exp(-sharpness * (1 - cosines)) @ classes.to(features.dtype)
    return added


def _corrected(head: Callable[[Tensor], Tensor], correction: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def forward(features: Tensor) -> Tensor:
        logits = head(features)
        return logits + correction(features).view_as(logits)

    return forward


class _CachedHead(nn.Module):
    """A last layer that corrects its logits by fixed caches."""

    def __init__(self, head: nn.Module, method: Tda) -> None:
        super().__init__()
        self.head, self.weights = head, method.weights
        for kind in self.weights:
            for name in ("features", "classes"):
                self.register_buffer(f"{kind}_{name}", getattr(method, f"{kind}_{name}").clone())

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features)
        caches = (
            (self.get_buffer(f"{kind}_features"), self.get_buffer(f"{kind}_classes"), *weights)
            for kind, weights in self.weights.items()
        )
        return logits + _correction(features, *caches).view_as(logits)
