"""The anchor: the source with the moments of recent inputs, which is never trained; it predicts and it judges."""

from holdfast.anchor.anchor import Anchor, Opinion, latest
from holdfast.anchor.card import Card, make_card, read_card
from holdfast.anchor.proportions import agreed, proportions_by_evidence, reweigh, variety
from holdfast.anchor.sites import (
    MOST_SAMPLES,
    Reference,
    follow_inputs,
    follows,
    is_blind,
    is_referred,
    measure_reference,
    taps_of,
)
from holdfast.anchor.temperature import FITTING, AnchorTemperature, agreement
from holdfast.blocks.tap import shift_of

__all__ = [
    "FITTING",
    "MOST_SAMPLES",
    "Anchor",
    "AnchorTemperature",
    "Card",
    "Opinion",
    "Reference",
    "agreed",
    "agreement",
    "follow_inputs",
    "follows",
    "is_blind",
    "is_referred",
    "latest",
    "make_card",
    "measure_reference",
    "proportions_by_evidence",
    "read_card",
    "reweigh",
    "shift_of",
    "taps_of",
    "variety",
]
