"""Scores against those of the official evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast.benchmark.scores import accuracy, macro_f1, macro_roc_auc, silhouette

LABELS = np.array([0, 0, 1, 1, 2, 2])
LOGITS = np.array(
    [[3.0, 1.0, 0.0], [0.0, 1.0, 0.5], [1.0, 2.0, 0.0], [0.5, 4.0, 1.0], [0.0, 0.2, 3.0], [2.0, 0.0, 1.0]]
)


def test_scores_are_those_of_the_official_evaluation(golden_folder: Path) -> None:
    arrays = np.load(golden_folder / "audio" / "metrics.npz")
    expected = json.loads((golden_folder / "audio" / "metrics.json").read_text())
    labels, logits = arrays["labels"], arrays["scores"]
    assert accuracy(labels, logits) == expected["accuracy"]
    assert macro_f1(labels, logits) == expected["f1_macro"]
    assert macro_roc_auc(labels, logits) == expected["roc_auc_macro_on_logits"]
    assert silhouette(labels, arrays["embeddings"]) == pytest.approx(expected["silhouette_euclidean"], abs=1e-6)


def test_scores_by_hand() -> None:
    assert accuracy(LABELS, LOGITS) == pytest.approx(4 / 6)
    assert macro_f1(LABELS, LOGITS) == pytest.approx((1 / 2 + 4 / 5 + 2 / 3) / 3)
    # Of its eight pairs class 0 ranks 4 right and draws one, class 1 ranks all right, class 2 draws one.
    assert macro_roc_auc(LABELS, LOGITS) == pytest.approx((4.5 + 8 + 7.5) / 24)


def test_logits_and_probabilities_rank_differently() -> None:
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    assert macro_roc_auc(LABELS, LOGITS) != macro_roc_auc(LABELS, probs)


def test_a_class_without_samples_has_no_roc_curve() -> None:
    with pytest.raises(ValueError, match="no sample has label 2"):
        macro_roc_auc(LABELS[:4], LOGITS[:4])
