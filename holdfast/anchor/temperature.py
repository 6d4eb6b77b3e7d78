"""What an anchor's probabilities are worth: the temperature of its logits, and the interval of estimates by them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.anchor.anchor import Anchor, latest
from holdfast.anchor.proportions import entropy_of
from holdfast.evidence import (
    Temperature,
    temperature_from_accuracy,
    temperature_from_agreement,
    temperature_from_labels,
    temperature_from_stream,
)
from holdfast.records import Estimate
from holdfast.state import Stateful

NINETY_PERCENT = 1.645  # standard deviations to either side
FITTING = 0.8  # agreement of source and anchor on held-out inputs below which stored statistics are those of other data
HOPELESS = 0.35  # error of a temperature that says nothing
COMPARED = 256  # last samples of the stream on which source and anchor are compared
# Where these were chosen and confirmed: docs/results/estimators.md.
OFF_BY = 0.04  # standard deviation of an estimate beyond its sampling error
OFF_BY_CLASS = 0.1  # of one class; errors of several classes cancel
# Times the confidence that the anchor has lost since held-out data, or its square: a shift costs more accuracy than
# confidence more often than less.
TOO_HIGH_BY_SHIFT = 1.2
TOO_LOW_BY_SQUARED_SHIFT = 4.0
UNFOLLOWED_LOSS = 1.5  # accuracy lost beyond confidence, for each point of it, where no statistics follow the shift
TOO_HIGH_BY_UNFOLLOWED_SHIFT = 2.2
TOO_LOW_BY_UNFOLLOWED_SHIFT = 0.8


class AnchorTemperature(Stateful):
    """Fits an anchor's temperature by the best evidence there is, and knows how wrong estimates at it can be.

    Held-out labels are best, then held-out inputs with the known accuracy on such inputs, then held-out inputs alone,
    then the agreement of source and anchor on the stream itself. An anchor that follows inputs from the source's own
    moments agrees too well to tell, and without held-out labels nothing is known of its temperature (`unknown`).
    """

    fitted: bool
    error: float
    clean_confidence: float | None
    compared: Tensor | None
    agreed: Tensor | None

    def __init__(self, *, given: bool = False, clean_accuracy: float | None = None) -> None:
        super().__init__()
        if clean_accuracy is not None and not 0 < clean_accuracy < 1:
            raise ValueError(f"clean_accuracy must be a share between 0 and 1, got {clean_accuracy}")
        self.clean_accuracy = clean_accuracy
        self.given = given  # the temperature is the user's
        self.add_state("fitted", False, kept=True)
        self.add_state("error", 0.0, kept=True)  # of the mean confidence, one standard deviation
        self.add_state("clean_confidence", None, kept=True)  # of the anchor on held-out data
        self.add_state("compared", None)  # logits of the anchor for the last compared samples, (samples, classes)
        self.add_state("agreed", None)  # whether the source predicted the same, (samples,)

    def fit(
        self,
        anchor: Anchor,
        logits: Sequence[Tensor],
        labels: Sequence[Tensor | None],
        source_logits: Sequence[Tensor] = (),
    ) -> None:
        """Fit the temperature to logits of held-out samples, with labels, a known accuracy or those of the source."""
        known = [pair for pair in zip(logits, labels, strict=True) if pair[1] is not None]
        fitted: Temperature | None = None
        if known:
            logits = [rows for rows, _ in known]
            truth = torch.cat([right for _, right in known if right is not None])
            fitted = temperature_from_labels(_array(logits), truth.numpy(force=True))
        elif logits and self.clean_accuracy is not None:
            fitted = temperature_from_accuracy(
                _array(logits), self.clean_accuracy, source=_array(source_logits or logits)
            )
        elif source_logits and agreement(logits, source_logits) >= FITTING:
            fitted = temperature_from_agreement(_array(logits), _array(source_logits))
        if fitted is not None:
            anchor.rescale(fitted=fitted.temperature)
            self.fitted, self.error = True, fitted.error
            self.clean_confidence = float(anchor.scaled(torch.cat(list(logits))).amax(1).mean())

    @property
    def estimates(self) -> bool:
        """Whether the temperature is estimated from the stream, for want of anything better."""
        return not self.fitted and not self.given

    @property
    def waits(self) -> bool:
        """Whether the stream has been compared on too few samples so far."""
        return self.estimates and (self.agreed is None or len(self.agreed) < COMPARED)

    def compare(self, anchor: Anchor, logits: Tensor, source_logits: Tensor) -> None:
        """Estimate the temperature from predictions of the anchor and of the source for the same samples."""
        if not self.estimates:
            return
        agreed = latest(self.agreed, (logits.argmax(1) == source_logits.argmax(1)).to(logits.dtype), COMPARED)
        compared = latest(self.compared, logits.detach(), COMPARED)
        known = torch.cat([compared.double(), agreed.double()[:, None]], 1).cpu()  # one wait
        if not torch.isfinite(known).all():
            return
        self.compared, self.agreed = compared, agreed
        same = known[:, -1].to(torch.promote_types(agreed.dtype, torch.float32)).numpy()  # numpy has no bfloat16
        fitted = temperature_from_stream(known[:, :-1].contiguous().numpy(), same, self.clean_accuracy)
        anchor.rescale(estimated=fitted.temperature)
        self.error = fitted.error

    def unknown(self, *, follows: bool) -> str | None:
        """Return why nothing is known of the temperature, or None."""
        if not self.estimates:
            return None
        if follows and self.error < HOPELESS:
            return None
        if follows:
            return (
                "source and anchor were compared on too few samples, or predict one class for nearly all of them; "
                "pass holdout=[(inputs, labels)]"
            )
        return (
            "the temperature of this network is not known, and the stream alone cannot show it; pass "
            "holdout=[(inputs, labels)], or holdout=[inputs] and clean_accuracy="
        )

    def estimate(self, beliefs: Tensor, weighed: Tensor, plain: Tensor, *, follows: bool) -> Estimate:
        """Return the accuracy and its 90 % interval from probabilities that predictions are right, (samples,).

        `weighed` and `plain` are the anchor's probabilities for the same samples, with and without class proportions.
        """
        spread = (beliefs * (1 - beliefs)).sum().sqrt()
        parts = beliefs.mean(), plain.amax(1).mean(), spread, entropy_of(weighed.mean(0))
        value, confidence, root, entropy = torch.stack([part.double() for part in parts]).tolist()  # one wait
        scatter = root / len(beliefs)
        lost = self._lost(confidence)
        if not follows:
            value = max(0.0, value * (1 - UNFOLLOWED_LOSS * lost / confidence))
            too_high, too_low = TOO_HIGH_BY_UNFOLLOWED_SHIFT * lost, TOO_LOW_BY_UNFOLLOWED_SHIFT * lost
        else:
            too_high, too_low = TOO_HIGH_BY_SHIFT * lost, TOO_LOW_BY_SQUARED_SHIFT * lost**2
        by_class = OFF_BY_CLASS / math.sqrt(math.exp(entropy))
        always = math.hypot(scatter, OFF_BY, by_class, self.error)
        down, up = (NINETY_PERCENT * math.hypot(always, shift) for shift in (too_high, too_low))
        return Estimate(value, max(0.0, value - down), min(1.0, value + up))

    def _lost(self, confidence: float) -> float:
        """Return the confidence that a shift has cost; without held-out data, half of what there is not."""
        if self.clean_confidence is not None:
            return max(0.0, self.clean_confidence - confidence)
        return (1 - confidence) / 2 if self.estimates else 0.0


def agreement(logits: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """Return the share of samples for which two networks predict the same class, from their logits in batches.

    >>> agreement([torch.eye(2)], [torch.eye(2)[[0, 0]]])
    0.5
    """
    return float((torch.cat(list(logits)).argmax(1) == torch.cat(list(others)).argmax(1)).double().mean())


def _array(batches: Sequence[Tensor]) -> NDArray[np.float64]:
    joined: NDArray[np.float64] = torch.cat(list(batches)).double().numpy(force=True)
    return joined
