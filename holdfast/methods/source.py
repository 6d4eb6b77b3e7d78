"""The source without adaptation: the baseline of every table."""

from __future__ import annotations

from torch import nn

from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier


@METHODS.register("source")
class Source(Method):
    """Predict with the network exactly as given, without adaptation."""

    needs_norm = False
    passes = "1 forward"
    keeps = "nothing"
    use_when = "always, as the baseline that every other method must beat"
    fails_when = "the inputs have shifted"
    learns = False

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Change no layer and train nothing."""
        return []
