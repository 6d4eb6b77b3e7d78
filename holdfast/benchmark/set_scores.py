"""Scores that need all predictions of a set together, unlike the accuracy in the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from holdfast.benchmark.scores import SCORES, Labels, Logits
from holdfast.methods import classifier_part
from holdfast.model.adapted import AdaptedModel
from holdfast.models.classifier import Classifier
from holdfast.records import Batch


def score_set(model: AdaptedModel, batches: Iterable[Batch], names: Sequence[str]) -> dict[str, float | None]:
    """Predict a set without adapting and return these scores; None if the set is too small for one."""
    if not names:
        return {}
    labels, logits, features = [], [], []
    for batch in batches:
        watched = model.method.predictor if "silhouette" in names else None
        with _features_of(watched) as seen:
            logits.append(model.predict(batch.inputs).logits.cpu().numpy())
        labels.append(batch.labels)
        features += [tokens.flatten(1).cpu().numpy() for tokens in seen[-1:]]
    known, predicted = np.concatenate(labels), np.concatenate(logits)
    return {
        name: _score(name, known, np.concatenate(features) if name == "silhouette" else predicted) for name in names
    }


def _score(name: str, labels: Labels, values: Logits) -> float | None:
    try:
        return SCORES[name](labels, values)
    except ValueError:  # a class without samples has no curve, and classes of one sample have no distances
        return None


@contextmanager
def _features_of(network: Classifier | None) -> Iterator[list[Tensor]]:
    """Collect the inputs of the network's classifier part within the block; nothing for None."""
    if network is None:
        yield []
        return
    part = classifier_part(network) or network.head
    if part is None:
        raise ValueError("the network has no classifier part, so it has no features to score; leave out silhouette")
    seen: list[Tensor] = []
    with part.register_forward_pre_hook(lambda _, received: seen.append(received[0].detach())):
        yield seen
