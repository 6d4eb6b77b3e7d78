"""The frozen source model: what every other method is measured against."""

from __future__ import annotations

from torch import nn

from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier

__all__ = ["Source"]


@METHODS.register("source")
class Source(Method):
    """Answers with the model as it was trained and changes nothing."""

    passes = "1 forward"
    keeps = "nothing"
    use_when = "always, as the row that every other method must beat"
    fails_when = "the inputs have shifted"
    learns = False

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Leave every layer as it is and train nothing."""
        return []
