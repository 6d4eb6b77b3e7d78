"""POEM: match the distribution of entropies to that of the source, by betting against it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.blocks.frozen_layers import TOP_LAYERS, affine_parameters_except
from holdfast.blocks.losses import entropy
from holdfast.blocks.norm import source_statistics
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Positive, Whole

_SGD = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9}
MAX_LOG_WEALTH = 200 * math.log(10)


@METHODS.register("poem")
class Poem(Method):
    """Bet sample by sample that entropies have shifted from the source's, and train towards what undoes the bet.

    A bet wins as long as the entropies of the stream are larger (or smaller) than those of source inputs. Its wealth is
    evidence of a shift at level 1 / wealth, recorded as the gauge `log_wealth`; while there is none, hardly anything is
    trained. As in the official script, reliable samples are weighted (`weighted=False` matches all samples alike). The
    bets need the sum of squared gains only, so that a sample costs the same at any length of the stream; the official
    code sums them anew for each sample. `cdf_statistics="source"` takes the source entropies with the source statistics
    of BatchNorm, as the official code does, instead of those that are used on the stream.
    """

    citation = "Bar et al., NeurIPS 2024"
    passes = "1 forward, at most 1 backward"
    keeps = "source values of the trained parameters; the entropies of the source inputs"
    needs_source = True
    use_when = "the stream may not have shifted at all, and a network without BatchNorm must then stay as it is"
    fails_when = "the shift does not show in the entropies, or a BatchNorm network is confidently wrong"
    meanings: ClassVar = {
        "bet_rate": "how fast the bet grows (γ)",
        "max_bet": "its largest size (D)",
        "warm_up_samples": "number of samples before anything is trained",
        "weighted": "whether reliable samples only are trained on, by their entropy",
        "entropy_margin": "largest entropy of a reliable sample, as a share of log(classes)",
        "temperature": "divides the logits before entropies are taken",
        "cdf_statistics": "normalisation for the source entropies: that used on the stream, or the source's",
        "frozen_layers": "regular expression of layers that are not trained",
    }
    presets: ClassVar = {
        "cifar10-c": {**_SGD, "lr": 1e-3},
        "cifar100-c": {**_SGD, "lr": 1e-3},
        "imagenet-c": _SGD,
        "imagenet-c-group": {**_SGD, "temperature": 0.9},
        "imagenet-c-layer": {**_SGD, "lr": 1e-3, "temperature": 1.025},
    }
    source_entropies: Tensor | None
    bet: float
    log_wealth: float
    squares: float
    samples: int

    def __init__(
        self,
        model: Classifier,
        *,
        bet_rate: float = 1 / (8 * math.sqrt(3)),
        max_bet: NotNegative = 1.8,
        warm_up_samples: Whole = 100,
        weighted: bool = True,
        entropy_margin: NotNegative = 0.4,
        temperature: Positive = 1.0,
        cdf_statistics: Literal["used", "source"] = "used",
        frozen_layers: str | None = TOP_LAYERS,
        **learning: Any,
    ) -> None:
        self.frozen_layers = frozen_layers
        super().__init__(model, **learning)
        self.bet_rate, self.max_bet, self.warm_up_samples = bet_rate, max_bet, warm_up_samples  # γ, D
        self.weighted, self.entropy_margin = weighted, entropy_margin
        self.temperature, self.cdf_statistics = temperature, cdf_statistics
        self.max_entropy = entropy_margin * math.log(model.num_classes)  # E_0
        self.add_state("source_entropies", None, kept=True)  # in ascending order
        self.add_state("bet", 0.0)  # ε
        self.add_state("log_wealth", 0.0)
        self.add_state("squares", 0.0)  # V: sum of the squared gains per unit of the bet
        self.add_state("samples", 0)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Use batch statistics in all layers and train the affine parameters of those that are not frozen."""
        super().prepare(model)
        return affine_parameters_except(model.module, self.frozen_layers)

    @torch.no_grad()
    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Store the entropies of the source inputs: their distribution is what the stream is compared with."""
        with source_statistics(self.model) if self.cdf_statistics == "source" else nullcontext():
            entropies = [entropy(self.model(inputs) / self.temperature) for inputs in batches]
        if not entropies:
            raise ValueError("source holds no batch; pass source=[inputs, …] with unlabelled source inputs")
        self.source_entropies = torch.cat(entropies).sort().values

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return the weighted mean of ½ (H − z')² over reliable samples; z' is the entropy that undoes the bet."""
        if self.source_entropies is None:
            return None
        uncertainty = entropy(logits / self.temperature)
        targets = self.protect(uncertainty.detach())
        if self.samples < self.warm_up_samples:
            return None
        weights, kept = torch.ones_like(targets), torch.ones_like(targets, dtype=torch.bool)
        if self.weighted:
            weights = (self.max_entropy - uncertainty.detach()).exp()
            kept = uncertainty.detach() < self.max_entropy
        return (weights * (uncertainty - targets))[kept].square().mean() / 2 if kept.any() else None

    def protect(self, entropies: Tensor) -> Tensor:
        """Bet on one sample after the other, and return the entropies that each bet maps them to, (batch,)."""
        assert self.source_entropies is not None
        support = self.source_entropies.double().cpu().numpy()
        levels = np.arange(1, len(support) + 1) / len(support)
        shares = np.interp(entropies.double().cpu().numpy(), support, levels)  # u = F(z)
        bets = np.array([self._bet_on(share) for share in shares.tolist()])
        protected = bets / 2 * shares**2 + (1 - bets / 2) * shares
        return torch.from_numpy(np.interp(protected, levels, support)).to(entropies)

    def _bet_on(self, share: float) -> float:
        """Return the bet on a sample, and set the next bet by its outcome."""
        bet, excess = self.bet, share - 0.5
        self.log_wealth = min(self.log_wealth + math.log1p(bet * excess), MAX_LOG_WEALTH)
        gain = excess / (1 + bet * excess)
        self.samples += 1
        # As in the official code, the very first sample is not learnt from; nor is one that would raise too high a bet.
        if self.samples == 1 or (abs(bet) > self.max_bet and bet * excess > 0):
            gain = 0.0
        self.squares += gain**2
        if gain:
            self.bet += self.bet_rate * gain / math.sqrt(self.squares)
        return bet

    def gauges(self) -> Mapping[str, float]:
        """Return the logarithm of the wealth, which is evidence of a shift, and the bet."""
        return {"log_wealth": self.log_wealth, "bet": self.bet}
