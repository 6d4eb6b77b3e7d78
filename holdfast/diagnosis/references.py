"""Checks of what the anchor follows inputs from: stored statistics, and a card."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.anchor import Anchor, Card, agreement, follows
from holdfast.diagnosis.findings import Finding
from holdfast.models.classifier import Classifier, weights_digest
from holdfast.models.probing import untouched
from holdfast.models.sharing import sharing_copy

FITS_FROM = 0.9  # share of predictions for clean data that stay the same when stored statistics are followed


def card_finding(network: nn.Module, card: Card) -> Finding:
    """Return whether a card belongs to a network."""
    try:
        card.check(weights_digest(network))
    except ValueError as error:
        problem, _, remedy = str(error).partition("; ")
        return Finding("card", "fail", problem, remedy)
    return Finding("card", "ok", f"{card.reference.samples} samples at {len(card.reference.sites)} layers")


@torch.no_grad()
def stored_statistics(model: Classifier, inputs: Tensor) -> Finding | None:
    """Return whether the statistics that BatchNorm layers store are those of clean data; None without any.

    An anchor that follows the data from them changes few predictions if they are, and many if they are those of other
    data, as behind a new head on a pretrained network.
    """
    network, anchor = sharing_copy(model), Anchor(proportions=False)
    anchor.tap(network, source_share=0.5)
    if not follows(network):
        return None
    with untouched(model.module):
        own = model(inputs)
    same = agreement([anchor.follow(network, inputs)], [own])
    if same >= FITS_FROM:
        return Finding("stored statistics", "ok", f"they fit your data: {100 * same:.0f} % of the predictions stay")
    text = f"stored statistics do not fit your data: {100 * (1 - same):.0f} % of the predictions change"
    return Finding("stored statistics", "warn", text, "pass source= or card=")
