"""Cards of models: one that belongs to other weights is refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.anchor import read_card
from holdfast.benchmark.job import Job
from holdfast.models import MODELS, weights_digest


def check_cards(jobs: Iterable[Job]) -> None:
    """Raise for the first model whose card cannot be read, or belongs to other weights."""
    for model, path in dict.fromkeys((job.model, job.card) for job in jobs):
        if path is not None:
            try:
                read_card(path).check(weights_digest(model.build(MODELS)))
            except ValueError as error:
                raise ValueError(f"{path} cannot be used for {model.label}: {error}; nothing was run") from error
