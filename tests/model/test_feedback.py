"""What a guarded model remembers of its predictions, and in which order it is shown what is known of the source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from holdfast import AdaptedModel, adapt, guard
from holdfast.evidence import LabelRequests
from holdfast.model.guarded import LABELS_KEPT, LABELS_TO_FIT, Feedback
from holdfast.models.tiny import tiny_resnet
from holdfast.records import Verdict

INPUTS = torch.rand(16, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def serve(feedback: Feedback, first: int, count: int) -> None:
    """Serve samples with ids from the first on, whose logits are their ids, and want all of their labels."""
    right, source_right, ids = torch.full((count,), 0.75), torch.full((count,), 0.5), first + np.arange(count)
    classes, logits = torch.zeros(count, dtype=torch.long), torch.from_numpy(ids)[:, None].float()
    verdict = Verdict(classes, classes, right, source_right, logits, logits, 0.0)
    feedback.serve(verdict, LabelRequests(ids, np.ones(count, bool), np.ones(count)), window=64)


def test_the_newest_labels_that_are_wanted_are_kept_and_gains_are_over_the_source() -> None:
    feedback = Feedback()
    serve(feedback, 100, LABELS_KEPT + 5)
    assert list(feedback.asked) == list(range(105, 105 + LABELS_KEPT))
    assert feedback.asked[105].tolist() == [105.0]
    assert feedback.gains is not None
    assert set(feedback.gains.tolist()) == {0.25}


def test_the_newest_labels_that_came_back_are_kept() -> None:
    feedback = Feedback()
    for first, count in ((0, LABELS_KEPT), (LABELS_KEPT, 3)):
        serve(feedback, first, count)
        assert all(feedback.answer(sample, sample % 10) for sample in range(first, first + count))
    kept = [(float(logits), label) for logits, label in feedback.answered]
    assert kept == [(sample, sample % 10) for sample in range(3, LABELS_KEPT + 3)]


def test_a_reset_forgets_beliefs_and_keeps_labels() -> None:
    model = guard(tiny_resnet(), "tent", source=[INPUTS], budget=1.0)
    step = model.step(INPUTS)
    wanted = [sample for sample, wants in zip(step.ids, step.wants_label, strict=True) if wants]
    assert model.feedback(wanted[0], label=3)
    model.reset()
    assert (model.labels.beliefs, model.labels.gains) == (None, None)
    assert len(model.labels.answered) == 1
    assert list(model.labels.asked) == wanted[1:]


def test_the_temperature_is_fitted_with_the_twentieth_label() -> None:
    model = guard(tiny_resnet(), "tent", source=[INPUTS], budget=1.0)
    fitted: list[bool] = []
    while len(fitted) < LABELS_TO_FIT:
        step = model.step(INPUTS)
        for sample, wanted in zip(step.ids, step.wants_label, strict=True):
            if wanted and len(fitted) < LABELS_TO_FIT:
                model.feedback(sample, label=len(fitted) % 10)
                fitted.append(model.guard.anchor_temperature.fitted)
    assert fitted == [False] * (LABELS_TO_FIT - 1) + [True]


def test_held_out_data_may_come_one_by_one() -> None:
    model = guard(tiny_resnet(), "tent", source=[INPUTS])
    model.fit_holdout(batch for batch in [(INPUTS, torch.arange(16) % 10)])
    assert model.guard.anchor_temperature.fitted


@pytest.mark.parametrize(("known", "first"), [({"clean_accuracy": 0.9}, "refer_to"), ({}, "fit_holdout")])
def test_an_anchor_is_judged_as_it_follows_if_the_accuracy_is_known(
    known: dict[str, Any], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    for name in ("refer_to", "fit_holdout"):
        monkeypatch.setattr(AdaptedModel, name, lambda *_, name=name: called.append(name))
    adapt(tiny_resnet(), "blend", estimator="anchored", source=[INPUTS], holdout=[INPUTS], **known)
    assert called[0] == first
    assert len(called) == 2
