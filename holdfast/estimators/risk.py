"""Risk monitoring: an upper bound on the running accuracy without labels, and an alarm when it is too low."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.blocks.losses import entropy
from holdfast.blocks.norm import paused
from holdfast.estimators._base import ESTIMATORS
from holdfast.estimators._held_out import OnHeldOut
from holdfast.estimators._observation import Observation
from holdfast.evidence import RiskMonitor
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, Share
from holdfast.records import Estimate


@ESTIMATORS.register("risk")
class Risk(OnHeldOut):
    """Bounds the running accuracy from above, and raises an alarm when the error is certainly too large.

    A `RiskMonitor` reads the entropy of the predictions. It allows the error of the network before its first update on
    held-out source data, plus `tolerated`; the alarm is false with probability at most `level`, under the assumptions
    of the monitor. The network of every `calibrate_every`-th batch predicts the held-out data anew. The bound is on
    all samples since the last alarm, not on the newest batch; an alarm starts it anew. It changes nothing by itself.
    Held-out data are predicted by the network alone: a method that changes its logits afterwards (guard, lame, roid)
    is compared with something else, and may cause false alarms.
    """

    citation = "Schirmer et al., arXiv 2507.08721"
    batches: int

    def __init__(
        self, *, tolerated: Share = 0.05, level: Share = 0.05, calibrate_every: Count = 8, samples: Count = 1000
    ) -> None:
        super().__init__()
        self._monitor = RiskMonitor([0], tolerated=tolerated, level=level)  # checks both; `fit` replaces it
        self.tolerated, self.level, self.calibrate_every, self.samples = tolerated, level, calibrate_every, samples
        self.add_state("batches", 0)  # since the last alarm

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Keep the first samples, and measure the error on them."""
        super().fit(batches, model)
        self._monitor = RiskMonitor(self._held_out(model)[1], tolerated=self.tolerated, level=self.level)

    def estimate(self, seen: Observation) -> Estimate:
        """Return the largest accuracy so far that the entropies allow, with an alarm if that is too little."""
        monitor = self._monitor
        if self.batches % self.calibrate_every == 0:
            monitor.calibrate(*self._held_out(seen.model))
        raised = monitor.observe(entropy(seen.logits.float()).tolist())
        low = max(monitor.low, 0.0)
        self.batches += 1
        if raised:
            self.reset_state()
        reason = f"error of at least {100 * low:.3g} %, where {100 * monitor.allowed:.3g} % is allowed"
        return Estimate(1 - low, alarm=reason if raised else None)

    def _held_out(self, model: Classifier) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the entropies of the predictions for the held-out data, and which of them are wrong."""
        with torch.no_grad(), paused(model):
            logits = model(self.inputs)
        wrong = logits.argmax(1) != self.labels
        return entropy(logits.float()).double().cpu().numpy(), wrong.cpu().numpy()
