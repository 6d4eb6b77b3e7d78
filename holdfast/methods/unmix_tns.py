"""UnMIX-TNS: normalisation for streams in which domains and classes come mixed or in bursts."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import nn

from holdfast.blocks.mixture_norm import MixtureStatistics
from holdfast.blocks.norm import replace_batch_norm
from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier

__all__ = ["UnmixTns"]


@METHODS.register("unmix_tns")
class UnmixTns(Method):
    """Keeps several statistics per layer and normalises each sample with their mixture, drawn towards what fits it.

    A short batch moves the components by as much as its own size deserves; the official code takes the configured size
    for it. `skipped_draws` repeats a run of the official code, which seeds before it builds the network: as many
    numbers of the generator went into initial weights as the network has of them.
    """

    citation = "Tomar et al., ICLR 2024"
    needs_batch_norm = True
    passes = "1 forward"
    keeps = "mean and variance of every component in every BatchNorm layer"
    use_when = "batches are small, of few classes or of several domains; nothing may be trained"
    fails_when = "batches are large, of one domain and of all classes: their own statistics say more"
    presets: ClassVar = {
        "imagenet-c": {"components": 16, "full_batch_size": 16},
        "mixed-domains": {"components": 128},
        "unitta": {"components": 16, "full_batch_size": 64},
    }

    def __init__(
        self,
        model: Classifier,
        *,
        components: int = 16,
        spread_share: float = 0.5,
        temperature: float = 0.07,
        full_batch_size: int = 64,
        skipped_draws: int = 0,
        seed: int = 0,
    ) -> None:
        if components < 1 or full_batch_size < 1:
            raise ValueError("pass at least one of components and a full_batch_size of at least 1")
        self.components, self.spread_share, self.temperature = components, spread_share, temperature
        self.full_batch_size = full_batch_size  # B_max: what the layers' own momentum was meant for
        self.skipped_draws = skipped_draws
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Replace the statistics of every BatchNorm layer, spread in module order, and train nothing."""
        generator = torch.Generator().manual_seed(self.seed)
        torch.rand(self.skipped_draws, generator=generator)
        stand_in = partial(
            MixtureStatistics,
            generator=generator,
            components=self.components,
            spread_share=self.spread_share,
            temperature=self.temperature,
            full_batch_size=self.full_batch_size,
        )
        replace_batch_norm(model, stand_in)
        return []
