"""The base class of BDN and UniTTA: three passes, the last with separate statistics for each domain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.blocks.balanced_norm import given_labels
from holdfast.blocks.domain_align import Aligned, AlignedStatistics, align_norm_layers
from holdfast.blocks.domain_norm import DomainStatistics
from holdfast.blocks.domain_tracker import Distance, Domains, Overflow, prediction_layer
from holdfast.blocks.neighbours import Filter, surer
from holdfast.blocks.wrapping import replace_batch_norm
from holdfast.methods._base import Method, PredictOnly
from holdfast.models.classifier import Classifier
from holdfast.models.probing import called_parts
from holdfast.options.ranges import Several, Share


class ByDomain(Method):
    """Pseudo-label a batch, detect the domains of its samples, then predict with the statistics of each domain.

    The options are explained in `unitta`.
    """

    passes = "3 forward"
    keeps = "mean and variance of every class, and of every class met in every domain, in every normalisation layer"
    predicts = "after"
    fails_when = "most predicted labels are wrong, or a domain has too few samples to estimate its statistics"
    meanings: ClassVar = {
        "class_momentum": "share of a new sample in the statistics of its class (η)",
        "agnostic_share": "part of each update that goes to all classes alike (γ)",
        "filter": "when the per-domain prediction is used: official, fixed (if more confident), or off (always)",
        "distance": "between a sample and a domain: w2 (Wasserstein) or kl",
        "prediction_layer": "name of the layer that detects domains; None: the first of the middle stage",
        "step": "capped: statistics never move past the samples' mean; official: they may",
        "max_domains": "largest number of domains, one of them the reserve",
        "overflow": "when there are too many domains: merge the closest two, or prune the smallest",
    }

    def __init__(
        self,
        model: Classifier,
        *,
        class_momentum: Share = 0.01,
        agnostic_share: Share = 0.0,
        filter: Filter = "official",
        distance: Distance = "w2",
        prediction_layer: str | None = None,
        step: Literal["capped", "official"] = "capped",
        max_domains: Several = 32,
        overflow: Overflow = "merge",
        seed: int = 0,
    ) -> None:
        self.class_momentum, self.agnostic_share = class_momentum, agnostic_share  # η, γ
        self.filter, self.distance, self.step = filter, distance, step
        self.prediction_layer, self.max_domains, self.overflow = prediction_layer, max_domains, overflow
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Replace the statistics of every normalisation layer, choose the layer that detects domains; train nothing."""
        options: dict[str, Any] = {
            "num_classes": model.num_classes,
            "class_momentum": self.class_momentum,
            "agnostic_share": self.agnostic_share,
            "capped": self.step == "capped",
        }
        stages = [name for name, _ in model.stages()]
        called = called_parts(model.module, model.trial_inputs())
        aligned = partial(AlignedStatistics, device=model.device, dtype=model.dtype, **options)
        if not (replace_batch_norm(model, partial(DomainStatistics, **options)) or align_norm_layers(model, aligned)):
            raise ValueError("the model has no normalisation layer to detect domains with; choose 'cofa'")
        layers = [name for name, part in model.module.named_modules() if isinstance(part, (DomainStatistics, Aligned))]
        # An auxiliary head has layers that are never called. Those of a wrapped layer are inside it.
        used = [name for name in layers if called & {name, name.rpartition(".statistics")[0] or name}]
        self.domains = Domains(
            model.module,
            prediction_layer(used or layers, stages, self.prediction_layer),
            num_classes=model.num_classes,
            distance=self.distance,
            max_domains=self.max_domains,
            overflow=self.overflow,
        )
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return log-probabilities, per sample the more confident of per-domain and pooled statistics."""
        labels = None
        if self.paused:
            second = self.classify_pass(inputs, 1)
        else:
            first = self.classify_pass(inputs, 0)
            if not torch.isfinite(first).all():
                return first
            labels = first.argmax(1)
            with given_labels(self.model, labels):
                second = self.classify_pass(inputs, 1)
        with self.domains.apart(labels):
            third = self.classify_pass(inputs, 2)
        return self.choose(second, third)

    @abstractmethod
    def classify_pass(self, inputs: Tensor, turn: int) -> Tensor:
        """Return the log-probabilities of one pass, the first, second or third of a batch."""

    def choose(self, together: Tensor, apart: Tensor) -> Tensor:
        """Return the more confident of two predictions for each sample; without a filter, the per-domain one."""
        return apart if self.filter == "off" else surer(together, apart)

    def gauges(self) -> Mapping[str, float]:
        """Return the number of domains found, without the reserve."""
        return {"domains": float(len(self.domains.counts) - 1)}

    def export(self) -> nn.Module:
        """Return a module that predicts with the domains found so far."""
        return PredictOnly(self)
