"""Cases of the methods that minimise a loss on their own predictions."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from holdfast.conformance.case import Case, expect
from holdfast.methods import Method

ADAM = {"optimizer": "adam", "lr": 1e-3}
ETA = {"optimizer": "sgd", "lr": 5e-3, "momentum": 0.9, "redundancy_margin": 0.4}
ETA_ADAM = {**ADAM, "redundancy_margin": 0.4}
# As in the official code, a reset keeps the loss average and the momentum.
SAR = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9, "keep_average": True, "keep_momentum": True}


def fisher(method: Method) -> Tensor:
    """Return EATA's Fisher vector."""
    return expect(Tensor, method.fisher)


def eata(trace: str, options: dict[str, Any], fisher_weight: float, *, twin: bool = False) -> Case:
    """Return a case of EATA, which sees source inputs before the first batch."""
    states = {"fisher": fisher}
    return Case(trace, "eata", {**options, "fisher_weight": fisher_weight}, source=True, states=states, twin=twin)


CASES = (
    Case("source", "source"),
    Case("bn", "batch_norm"),
    Case("bn_tentnorm", "batch_norm", twin=True),
    Case("bn_prior_n16", "batch_norm", {"prior_samples": 16}),
    Case("bn_prior_n256", "batch_norm", {"prior_samples": 256}),
    Case("bn_alpha", "batch_norm", {"source_share": 0.9}),
    Case("bn_cumulative", "batch_norm", {"cumulative": True}),
    Case("tent", "tent", ADAM),
    Case("tent_aetta", "tent", ADAM, twin=True),
    Case("tent_sgd", "tent", {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9}),
    Case("tent_episodic", "tent", {**ADAM, "steps": 2, "recovery": "episodic"}),
    Case("eta", "eta", ETA),
    Case("eta_adam", "eta", ETA_ADAM, twin=True),
    eata("eata_official", ETA, 1.0),
    eata("eata_aetta", ETA, 1.0, twin=True),
    eata("eata_official_beta2000", ETA, 2000.0),
    eata("eata_rdumb", ETA, 2000.0, twin=True),
    eata("eata_adam", ETA_ADAM, 1.0, twin=True),
    Case("rdumb", "rdumb", ETA, twin=True),
    Case("rdumb_t6", "rdumb", {**ETA, "every_batches": 6}),
    Case("rdumb_adam_t6", "rdumb", {**ETA_ADAM, "every_batches": 6}),
    Case("sar_official", "sar", SAR, twin=True),
    Case("sar_aetta", "sar", SAR, twin=True),
    Case("sar_official_lr1e-3", "sar", {**SAR, "lr": 1e-3}),
    Case("sar_official_lr1e-2", "sar", {**SAR, "lr": 1e-2}, twin=True),
    Case("sar_doebler", "sar", {**SAR, "lr": 1e-3, "keep_average": False}),
    Case("sar_doebler_lr1e-2", "sar", {**SAR, "lr": 1e-2, "keep_average": False}, twin=True),
    Case("rpl_rdumb", "rpl", {"preset": "ccc"}),
    Case("rpl_adam", "rpl", ADAM, twin=True),
    Case("rpl_robusta", "rpl", {"preset": "robusta"}, twin=True),
    Case("rpl_robusta_example", "rpl", {"preset": "robusta-example"}),
    Case("slr", "slr"),
    Case("slr_nofreeze", "slr", {"frozen_layers": None}, twin=True),
    Case("slr_clip", "slr", {"clip": 0.99}),
    Case("cpl_ce", "cpl", {"predicts": "after"}, twin=True),
    Case("cpl_ce", "cpl", array="logits_before_update", twin=True),
    Case("cpl_ce_t2", "cpl", {"temperature": 2.0, "predicts": "after"}),
    Case("cpl_poly6", "cpl", {"poly_epsilon": 6.0, "predicts": "after"}),
    Case("cpl_rdumb", "cpl", {"preset": "ccc"}),
)
