"""The anchor: the source with the statistics of recent inputs, which is never trained; it predicts and it judges."""

from holdfast.anchor.anchor import Anchor, Opinion, follow_inputs, follows, latest, shift_of
from holdfast.anchor.proportions import reweigh, reweigh_by_evidence, variety
from holdfast.anchor.scale import AnchorScale, Judgement

__all__ = [
    "Anchor",
    "AnchorScale",
    "Judgement",
    "Opinion",
    "follow_inputs",
    "follows",
    "latest",
    "reweigh",
    "reweigh_by_evidence",
    "shift_of",
    "variety",
]
