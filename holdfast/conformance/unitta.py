"""Cases of UniTTA and its parts BDN and COFA, which predict probabilities, with the official update step."""

from __future__ import annotations

from functools import partial

from holdfast.conformance.case import Case

OFFICIAL = {"class_momentum": 0.01, "agnostic_share": 0.0, "step": "official", "max_domains": 64}
LARGE_STEPS = {**OFFICIAL, "class_momentum": 0.05, "agnostic_share": 0.1}

_cofa = partial(Case, recipe="cofa", array="out", probabilities=True)
_bdn = partial(Case, recipe="bdn", array="out", probabilities=True, domains=True)
_unitta = partial(Case, recipe="unitta", array="out", probabilities=True, domains=True)

CASES = (
    _cofa("unitta_cofa"),
    _cofa("unitta_cofa_nofilter", options={"filter": "off"}),
    _bdn("unitta_bdn", options=OFFICIAL),
    _bdn("unitta_bdn_nofilter", options={**OFFICIAL, "filter": "off"}),
    _bdn("unitta_bdn_kl", options={**OFFICIAL, "distance": "kl"}, twin=True),
    _unitta("unitta", options=OFFICIAL),
    # Sample 892 of the i.i.d. stream has confidence 0.9999108 with and without its neighbour, for two classes.
    _unitta("unitta_kl", options={**OFFICIAL, "distance": "kl"}, twin=True, close_calls=1),
    _unitta("unitta_eta005_gamma01", options=LARGE_STEPS),
    _unitta("unitta_prune4", options={**OFFICIAL, "max_domains": 4, "overflow": "prune"}, twin=True),
    _unitta("unitta_bs16", options=OFFICIAL, batch_size=16, twin=True),
    _unitta("unitta_bs1", options=OFFICIAL, batch_size=1, twin=True),
)
