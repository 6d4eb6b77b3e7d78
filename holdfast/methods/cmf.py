"""CMF: ROID whose weights are averaged with a Kalman-filtered network instead of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from holdfast.methods._base import METHODS
from holdfast.methods.roid import Roid
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import NotNegative, Share

REFERENCE_WEIGHTS = 38_400  # trained weights of the network that the process noise was chosen for
GAIN_RANGE = (0.89, 0.9999)  # below, it is the lower end; from the upper end on, it is 1


@METHODS.register("cmf")
class Cmf(Roid):
    """Run ROID, and average its weights with a hidden network that follows both them and the source.

    The hidden network is a Kalman filter: drawn to the source by `1 − source_momentum`, then to the adapted weights as
    far as its variance allows; `source_share` is its share in each average. `process_noise` is for 38 400 trained
    weights and is scaled with their number; the authors' fork has 0.00025 for ResNets and rounds every average to half
    precision, which is not offered. The official reset keeps the variance of the filter; ours is exact.
    """

    citation = "Lee & Chang, ICLR 2024"
    keeps = "source values and filtered values of the trained parameters"
    use_when = "domains change or recur over a long stream, and ROID's pull to the source is too strong"
    fails_when = "classes are strongly correlated in time, as for ROID; or streams are short: it then equals ROID"
    meanings: ClassVar = {
        "source_momentum": "share that the hidden network keeps when it is drawn to the source (α)",
        "process_noise": "how fast the hidden network follows the adapted weights (Q)",
    }
    hidden: list[Tensor]
    variance: float
    gain: float

    def __init__(
        self,
        model: Classifier,
        *,
        source_momentum: Share = 0.99,
        process_noise: NotNegative = 0.005,
        **consistency: Any,
    ) -> None:
        super().__init__(model, **consistency)
        self.source_momentum, self.process_noise = source_momentum, process_noise  # α, Q
        self.noise = process_noise * sum(weight.numel() for weight in self.trained) / REFERENCE_WEIGHTS  # q
        self.add_state("hidden", [weight.clone() for weight in self.source_weights()])  # h
        self.add_state("variance", 0.0)  # P
        self.add_state("gain", 1.0)  # β, the share of the hidden network that it keeps

    def averaged_with(self) -> Sequence[Tensor]:
        """Filter the trained weights, and return the hidden ones."""
        drawn = zip(self.hidden, self.source_weights(), strict=True)
        predicted = [hidden.lerp(source, 1 - self.source_momentum) for hidden, source in drawn]
        variance = self.source_momentum**2 * self.variance + self.noise
        gain = (1 - self.noise) / (variance + 1 - self.noise)
        self.gain = 1.0 if gain >= GAIN_RANGE[1] else max(gain, GAIN_RANGE[0])
        self.variance = self.gain * variance
        followed = zip(predicted, self.trained, strict=True)
        self.hidden = [hidden.lerp(weight.detach(), 1 - self.gain) for hidden, weight in followed]
        return self.hidden
