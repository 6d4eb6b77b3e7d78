"""Scores of predictions against labels, as DHAuDS reports them; all but the silhouette are between 0 and 1.

Labels are integers (n,), logits (n, classes). The formulas are those of scikit-learn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Logits = NDArray[np.floating]


def accuracy(labels: Labels, logits: Logits) -> float:
    """Return the share of correct predictions.

    >>> accuracy(np.array([0, 1]), np.array([[2.0, 1.0], [2.0, 1.0]]))
    0.5
    """
    return float((logits.argmax(1) == labels).mean())


def macro_f1(labels: Labels, logits: Logits) -> float:
    """Return the unweighted mean of the F1 scores of the classes that occur.

    The formulas in the DHAuDS paper are those of the micro F1, which equals the accuracy.
    """
    from sklearn.metrics import f1_score

    return float(f1_score(labels, logits.argmax(1), average="macro"))


def macro_roc_auc(labels: Labels, logits: Logits) -> float:
    """Return the area under the ROC curve of each class against the others, averaged over the classes.

    Computed on raw logits, as published: probabilities rank samples differently.
    """
    from sklearn.metrics import roc_auc_score

    classes = np.arange(logits.shape[1])
    absent = np.setdiff1d(classes, labels)
    if len(absent):
        raise ValueError(f"no sample has label {absent[0]}, so its ROC curve is undefined; score more samples together")
    return float(roc_auc_score(labels[:, None] == classes, logits, average="macro"))


def silhouette(labels: Labels, features: Logits) -> float:
    """Return how much nearer samples are to their own class than to the next, -1 to 1 (Rousseeuw, 1987)."""
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(features, labels))


SCORES = {"accuracy": accuracy, "macro_f1": macro_f1, "macro_roc_auc": macro_roc_auc, "silhouette": silhouette}
