"""Cases of the methods that replace the normalisation layers, as run by the UniTTA repository."""

from __future__ import annotations

from holdfast.conformance.case import Case

TRIBE = {
    "optimizer": "adam",
    "lr": 1e-3,
    "class_momentum": 0.01,
    "agnostic_share": 0.0,
    "entropy_margin": 0.05,
    "anchor_weight": 0.5,
    "view": "identity",
}
# The seed was set before the network was built, whose weights were drawn first: all but 2 × 688 affine parameters.
UNMIX = {"components": 16, "full_batch_size": 64, "skipped_draws": 269_722 - 2 * 688}

CASES = (
    Case("robust_bn", "robust_bn", array="out"),
    Case("robust_bn_predict_first", "robust_bn", {"predict_first": True}, array="out"),
    Case("tribe_bbn", "balanced_bn", {"class_momentum": 0.01, "agnostic_share": 0.0}, array="out"),
    Case("tribe_bbn_eta005_gamma01", "balanced_bn", {"class_momentum": 0.05, "agnostic_share": 0.1}, array="out"),
    Case("rotta_rbn", "balanced_bn", {"class_momentum": 0.01, "agnostic_share": 1.0}, array="out"),
    Case("unmixtns", "unmix_tns", UNMIX, array="out"),
    Case("tribe_identity", "tribe", TRIBE, array="out", tolerance=1e-3),
)
