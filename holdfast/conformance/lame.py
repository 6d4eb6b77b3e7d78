"""Cases of LAME, which predicts probabilities."""

from __future__ import annotations

from holdfast.conformance.case import Case

CASES = (
    Case("lame_knn", "lame", {"affinity": "knn"}, probabilities=True),
    Case("lame_rbf", "lame", {"affinity": "rbf"}, probabilities=True),
    Case("lame_linear", "lame", {"affinity": "linear"}, probabilities=True, twin=True),
)
