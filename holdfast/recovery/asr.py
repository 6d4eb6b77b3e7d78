"""ASR: reset the last layers when predictions concentrate, and pull the weights back to what was learnt before."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.options.ranges import NotNegative, Positive, Share
from holdfast.records import Beside, Step
from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.restorable import Averaging, Pull, Restorable


@RECOVERIES.register("asr")
class Asr(Recovery):
    """Resets the last layers when the mean logits of a batch concentrate on fewer classes than its moving threshold.

    The threshold on the entropy starts at ln(C · `start_share`). The published share 0.5 is for 1000 classes and never
    resets with ten; "scaled" is 0.5 with 1000 classes and grows to 0.79 with ten, where ln C is smaller (ours). Each
    batch moves the threshold to its entropy, the slower the more predictions differ from those of the source weights.
    The further below it a batch is, the fewer of the first layers keep their weights. After the first reset, updates
    are pulled to the average weights before resets, by their average squared gradients times the squared share of
    predictions that differ. A batch of one causes no reset. `resets="anchor"` resets, instead of the weights, what ROID
    averages them with: what the released ROID with ASR does by accident.
    """

    citation = "Lim et al., ICLR 2026"
    meanings: ClassVar = {
        "start_share": "share of the classes at whose entropy the threshold starts; scaled: by the number of classes",
        "flip_momentum": "how slowly the threshold follows where predictions differ from the source's",
        "penalty_weight": "of the pull to what was learnt before resets",
        "kept_share": "share of the first layers that keep their weights at a weak concentration",
        "kept_slope": "how fast this share falls with the concentration",
        "fisher_momentum": "share of themselves that the averages of squared gradients and weights keep at each reset",
        "resets": "weights, or anchor: what the released ROID with ASR resets",
    }
    batches: int
    threshold: float | None
    penalty: float
    squares: list[Tensor] | None
    sums: list[Tensor] | None
    fisher: list[Tensor] | None
    means: list[Tensor] | None

    def __init__(
        self,
        *,
        start_share: Positive | Literal["scaled"] = "scaled",
        flip_momentum: Share = 0.15,
        penalty_weight: NotNegative = 5.0,
        kept_share: Share = 0.5,
        kept_slope: NotNegative = 20.0,
        fisher_momentum: Share = 0.9,
        resets: Literal["weights", "anchor"] = "weights",
    ) -> None:
        super().__init__()
        self.start_share, self.flip_momentum = start_share, flip_momentum  # a_0, m_0
        self.penalty_weight, self.fisher_momentum, self.resets = penalty_weight, fisher_momentum, resets  # p_0
        self.kept_share, self.kept_slope = kept_share, kept_slope  # r_0, r_1
        self.add_state("batches", 0)  # since the last reset
        self.add_state("threshold", None)
        self.add_state("penalty", 0.0)  # of the next update
        self.add_state("squares", None)  # sums over these batches, for each trained parameter: of squared gradients,
        self.add_state("sums", None)  # and of values
        self.add_state("fisher", None)  # averages over resets of the means of both
        self.add_state("means", None)
        self._before: list[Tensor] = []  # the trained parameters before the update

    @property
    def compares(self) -> bool:
        """Whether it compares predictions with those of the source weights: always."""
        return True

    def begin(self, method: Restorable) -> str | None:
        """Pull the next update to what was learnt before the resets."""
        self._before = [weight.detach().clone() for weight in method.trained]
        if method.stepper and self.fisher is not None and self.means is not None and self.penalty:
            strengths = [self.penalty * part for part in self.fisher]
            method.stepper.pull_towards(Pull(method.trained, strengths, self.means))
        return None

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Reset the last layers if the predictions of this batch concentrate, or move the threshold."""
        if method.stepper:
            method.stepper.pull_towards(None)
        before, self._before = self._before, []
        if step.skipped or step.beside is None:
            return None
        self._remember(before, [None if step.loss is None else weight.grad for weight in method.trained])
        if len(step.logits) == 1:
            return None
        spread, flipped = mean_spread(step.beside.adapted), share_flipped(step.beside)
        self.penalty = self.penalty_weight * flipped**2
        threshold = self.start(step.logits.shape[1]) if self.threshold is None else self.threshold
        if spread >= threshold:
            self.threshold = threshold + self.flip_momentum * (1 - flipped) * (spread - threshold)
            return None
        self._average()
        self.threshold = None
        kept = math.ceil(max(self.kept_share - self.kept_slope * (threshold - spread), 0.0) * len(method.trained))
        what = self._reset_after(kept, method)
        return (
            f"entropy of the mean logits {spread:.3g} below {threshold:.3g}; "
            f"the last {len(method.trained) - kept} of {len(method.trained)} {what} went back"
        )

    def _reset_after(self, kept: int, method: Restorable) -> str:
        """Reset all but the first trained parameters, or what they are averaged with, and return what was reset."""
        if self.resets == "weights":
            method.reset(keeping=method.trained[:kept])
            return "parameters"
        if not isinstance(method, Averaging):
            raise ValueError(
                f"a {type(method).__name__} averages its weights with no others that could be reset; choose "
                "resets='weights', or the method 'roid'"
            )
        first = [weight.detach().clone() for weight in method.trained[:kept]]
        method.reset(keeping=method.trained)
        method.average_with(first)
        return "parameters of the average"

    def start(self, classes: int) -> float:
        """Return the first threshold, in nats."""
        share = 0.5 ** (math.log(classes) / math.log(1000)) if self.start_share == "scaled" else self.start_share
        return math.log(classes * float(share))

    def _remember(self, weights: list[Tensor], gradients: list[Tensor | None]) -> None:
        """Add one batch to the sums."""
        self.batches += 1
        if not weights:
            return
        zeros = [torch.zeros_like(weight) for weight in weights]
        self.sums = [total + own for total, own in zip(self.sums or zeros, weights, strict=True)]
        squares = [zero if own is None else own.square() for own, zero in zip(gradients, zeros, strict=True)]
        self.squares = [total + own for total, own in zip(self.squares or zeros, squares, strict=True)]

    def _average(self) -> None:
        """Move the averages to the means since the last reset, and start new sums."""
        self.fisher, self.means = (
            self._moved(*parts) for parts in ((self.fisher, self.squares), (self.means, self.sums))
        )
        self.squares, self.sums, self.batches = None, None, 0

    def _moved(self, average: list[Tensor] | None, total: list[Tensor] | None) -> list[Tensor] | None:
        if total is None:
            return average
        new = [part / self.batches for part in total]
        return (
            new
            if average is None
            else [part.lerp(old, self.fisher_momentum) for old, part in zip(average, new, strict=True)]
        )


def mean_spread(logits: Tensor) -> float:
    """Return the entropy of the prediction from the mean logits of a batch, in nats: 0 to ln C.

    >>> round(mean_spread(torch.zeros(4, 10)), 4)  # ln 10
    2.3026
    """
    log_probs = logits.double().mean(0).log_softmax(0)
    return -float((log_probs.exp() * log_probs).nan_to_num(0.0).sum())


def share_flipped(beside: Beside) -> float:
    """Return the share of samples whose predicted class is not that of the source weights."""
    return float((beside.adapted.argmax(1) != beside.source.argmax(1)).double().mean())
