"""Blend: the source and the anchor predict together, and the anchor's weight follows the shift of the inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.anchor import Anchor, Opinion, Reference
from holdfast.methods._base import METHODS, Method
from holdfast.methods._graph import AdaptingGraph, FrozenGraph
from holdfast.methods.anchor import log_of
from holdfast.models.classifier import Classifier
from holdfast.models.engines import EngineName, SourceEngine
from holdfast.models.sharing import sharing_copy
from holdfast.options.ranges import Count, Positive, Share


@METHODS.register("blend")
class Blend(Method):
    """Predict with the source and the anchor together, with the class proportions on which both agree. Ours.

    p ∝ ((1 − w) · source + w · anchor) · π. The weight w = d / (d + `half_shift`) grows with d, the divergence of
    recent moments from those of the source's own data, less what other class proportions explain: without a shift the
    source decides. π are the class proportions of recent samples, each class as frequent as source and anchor both say.

    The source's moments come from `source` inputs, held-out inputs or a card. Without any the source alone predicts:
    the statistics that BatchNorm layers store may be those of other data, as behind a new head on a pretrained network.
    `stored_reference=True` says that they are the network's own. The other options are those of `anchor`.
    """

    citation = "ours; see docs/promise.md"
    needs_norm = False
    uses_reference = True
    passes = "2 forwards"
    keeps = "recent moments of every normalisation layer, probabilities of the last samples"
    predicts = "after"
    predicts_jointly = True
    use_when = "always, unless only one forward is affordable: it is the default"
    fails_when = (
        "no source samples are given: it then predicts as the source does; or few classes stay for long under a shift "
        "that moments do not undo, such as another pitch: the anchor is then wrong"
    )
    meanings: ClassVar = {
        "half_shift": "divergence of the moments, in nats of an average channel, at which source and anchor count the "
        "same",
        "source_share": "weight of the source's moments in the anchor",
        "window": "number of recent samples that count for moments and class proportions",
        "proportions": "whether predictions are reweighed by the class proportions of recent samples",
        "temperature": "divides all logits before they become probabilities",
        "stored_reference": "whether the statistics that BatchNorm layers store are those of the network's own source "
        "data, so that they serve where no source samples are given",
    }
    shift: float

    def __init__(
        self,
        model: Classifier,
        *,
        half_shift: Positive = 0.004,
        source_share: Share = 0.5,
        window: Count = 64,
        proportions: bool = True,
        temperature: Positive = 1.0,
        stored_reference: bool = False,
        seed: int = 0,
    ) -> None:
        self.half_shift, self.source_share, self.window = half_shift, source_share, window
        self.proportions, self.temperature, self.stored_reference = proportions, temperature, stored_reference
        super().__init__(model, seed=seed)
        self.add_state("shift", 0.0)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Keep the source, and tap the normalisation layers of the network; train nothing."""
        self.source, self.engine = sharing_copy(model), SourceEngine()
        self.anchor = Anchor(temperature=self.temperature, window=self.window, proportions=self.proportions)
        self.anchor.tap(model, source_share=self.source_share)
        return []

    def run_source_by(self, engine: EngineName) -> None:
        """Run the frozen source by a faster engine from now on."""
        self.engine = SourceEngine(engine)

    def refer_to(self, reference: Reference) -> None:
        """Follow inputs from the moments of the source's own data."""
        self.anchor.refer_to(self.model, reference)

    @property
    def referred(self) -> bool:
        """Whether the moments of the source's own data are known."""
        return self.anchor.is_referred or (self.stored_reference and self.anchor.follows)

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the blended probabilities; the source's logits where the anchor has no say."""
        with torch.no_grad():
            logits = self.engine(self.source, inputs)
        if not self.referred:
            return logits
        opinion = self.anchor.judge(self.model, inputs, source=logits, learn=not self.paused)
        if opinion is None:
            return logits
        if not self.paused:
            self.shift = opinion.shift
        return log_of(blended(self.anchor.scaled(logits), opinion, self.half_shift)).to(self.model.dtype)

    def gauges(self) -> Mapping[str, float]:
        """Return the divergence of recent moments from the source's."""
        return {"shift": self.shift}

    def export(self) -> nn.Module:
        """Return a module that predicts with the moments and proportions of now; without a reference, the source."""
        return FrozenGraph(self) if self.referred else copy.deepcopy(self.source.module).requires_grad_(False)

    def graph(self) -> AdaptingGraph:
        """Return a module that adapts: it takes inputs and a state, and returns logits and the next state."""
        if not self.referred:
            raise ValueError(
                "without source samples there is nothing to adapt with; pass source=[inputs, …] or card= to adapt"
            )
        return AdaptingGraph(self)


def blended(source: Tensor, opinion: Opinion, half_shift: float) -> Tensor:
    """Return the weighted mean of source and anchor with the class proportions of both, (batch, classes).

    >>> half = torch.full((1, 2), 0.5)
    >>> opinion = Opinion(torch.tensor([[0.2, 0.8]]), half, torch.tensor([[0.2, 0.8]]), shift=0.01)
    >>> blended(torch.tensor([[0.6, 0.4]]), opinion, half_shift=0.01)
    tensor([[0.4000, 0.6000]])
    """
    weight = opinion.shift / (opinion.shift + half_shift)
    return opinion.reweigh(source.lerp(opinion.plain, weight))
