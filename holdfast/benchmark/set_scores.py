"""Scores that need all answers of a set at once, besides the accuracy that rows hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from holdfast.adapted import AdaptedModel
from holdfast.benchmark.scores import Labels, Logits, macro_f1, macro_roc_auc, silhouette
from holdfast.methods import classifier_part
from holdfast.models.classifier import Classifier
from holdfast.records import Batch

__all__ = ["score_set"]

OF_LOGITS = {"macro_f1": macro_f1, "macro_roc_auc": macro_roc_auc}


def score_set(model: AdaptedModel, batches: Iterable[Batch], names: Sequence[str]) -> dict[str, float | None]:
    """Answer a set with the frozen model and return these scores; None where a set is too small to have one."""
    if not names:
        return {}
    labels, logits, features = [], [], []
    for batch in batches:
        watched = model.method.predictor if "silhouette" in names else None
        with _features_of(watched) as seen:
            logits.append(model.predict(batch.inputs).logits.cpu().numpy())
        labels.append(batch.labels)
        features += [tokens.flatten(1).cpu().numpy() for tokens in seen[-1:]]
    known, answers = np.concatenate(labels), np.concatenate(logits)
    return {name: _score(name, known, np.concatenate(features) if name == "silhouette" else answers) for name in names}


def _score(name: str, labels: Labels, values: Logits) -> float | None:
    try:
        return silhouette(labels, values) if name == "silhouette" else OF_LOGITS[name](labels, values)
    except ValueError:  # a class that never comes has no curve, and with one sample each there are no distances
        return None


@contextmanager
def _features_of(network: Classifier | None) -> Iterator[list[Tensor]]:
    """Collect what the classifier part of a network receives, for as long as the block lasts; nothing of None."""
    if network is None:
        yield []
        return
    part = classifier_part(network) or network.head
    if part is None:
        raise ValueError("no part of the network is its classifier, so there are no features; leave out silhouette")
    seen: list[Tensor] = []
    handle = part.register_forward_pre_hook(lambda _, received: seen.append(received[0].detach()))
    try:
        yield seen
    finally:
        handle.remove()
