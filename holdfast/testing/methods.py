"""Contracts of a method: predictions, reset, saving, repeatability, non-finite inputs, export."""

from __future__ import annotations

import copy
import inspect
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.adapted import AdaptedModel
from holdfast.methods import METHODS, Method
from holdfast.models.classifier import weights_digest
from holdfast.recipes import adapt, recipe_names, recipe_of
from holdfast.testing.comparison import Batches, assert_equal, logits_of, weights_of
from holdfast.testing.faults import (
    check_autocast,
    check_empty_batch,
    check_failed_steps,
    check_far_inputs,
    check_threads,
)

__all__ = ["METHOD_CHECKS", "check_method"]

Build = Callable[[], AdaptedModel]

_LABEL_WORDS = {"label", "labels", "target", "targets", "y", "domain", "domains"}


def check_method(
    method: str | type[Method],
    model: nn.Module,
    batches: Batches,
    *,
    source: Batches | None = None,
    **options: Any,
) -> None:
    """Run every contract of a method on one network; the first that does not hold raises an AssertionError.

    A method may refuse a network, if it does so before the first batch and names an alternative.
    """
    before = weights_digest(model)
    build = partial(_build, method, model, list(source or batches[:1]), options)
    try:
        unused = build()
    except ValueError as error:
        refusal = str(error)
        assert any(repr(name) in refusal for name in recipe_names()), f"the refusal names no alternative: {refusal}"
        return
    for check in METHOD_CHECKS:
        check(build if check in BUILT_EACH_TIME else partial(copy.deepcopy, unused), batches)
    assert weights_digest(model) == before, "the caller's model was changed"


def _build(method: str | type[Method], model: nn.Module, source: Batches, options: dict[str, Any]) -> AdaptedModel:
    kind = METHODS[recipe_of(method).method] if isinstance(method, str) else method
    return adapt(model, method, source=source if kind.requires_source(options) else None, **options)


def check_answers(build: Build, batches: Batches) -> None:
    """Every sample gets finite logits, whatever gradient mode the caller is in."""
    model = build()
    classes = model.method.model.num_classes
    for batch in batches:
        assert model(batch).shape == (len(batch), classes)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            logits = model(batches[0] + 0)  # under inference mode the sum is an inference tensor
            assert logits.shape == (len(batches[0]), classes), f"wrong shape under {mode.__name__}"
            assert torch.isfinite(logits).all(), f"non-finite logits under {mode.__name__}"
            assert not logits.requires_grad, "the answer drags its graph along"


def check_exact_reset(build: Build, batches: Batches) -> None:
    """After a reset the model is bit-equal to a new one, and so is its future."""
    model = build()
    before = weights_of(model)
    first = [model(batch) for batch in batches]
    model.reset()
    assert_equal(before, weights_of(model), "weights after reset")
    assert_equal(first, [model(batch) for batch in batches], "answers after reset")


def check_same_future_after_saving(build: Build, batches: Batches) -> None:
    """Saved in the middle of a stream and loaded into a new object, the rest of the stream is answered the same."""
    model = build()
    half = max(1, len(batches) // 2)
    for batch in batches[:half]:
        model(batch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        model.save(path)
        loaded = build()
        loaded.load(path)
    copied = build()
    copied.load_state_dict(model.state_dict())
    expected = [model(batch) for batch in batches[half:]]
    assert_equal(expected, [loaded(batch) for batch in batches[half:]], "answers after save and load")
    assert_equal(expected, [copied(batch) for batch in batches[half:]], "answers after load_state_dict")


def check_batch_of_one(build: Build, batches: Batches) -> None:
    """Samples that come one at a time are answered with finite logits and leave finite weights."""
    model = build()
    for sample in batches[0]:
        assert torch.isfinite(model(sample[None])).all(), "a batch of one has non-finite logits"
    assert all(torch.isfinite(tensor).all() for tensor in weights_of(model)), "batches of one left non-finite weights"


def check_repeatable(build: Build, batches: Batches) -> None:
    """Two runs with the same seed are equal to the bit, whatever the global generator has been used for."""
    first, second = build(), build()
    expected = [first(batch) for batch in batches]
    state = torch.get_rng_state()
    torch.rand(7)
    try:
        assert_equal(expected, [second(batch) for batch in batches], "answers of a second run")
    finally:
        torch.set_rng_state(state)


def check_no_label_in_sight(build: Build, batches: Batches) -> None:
    """No verb takes a label, and labels that come with source data are never looked at."""
    model = build()
    for verb in ("predict", "loss", "adapt", "fit_source"):
        taken = _LABEL_WORDS & set(inspect.signature(getattr(model.method, verb)).parameters)
        assert not taken, f"{verb} takes {sorted(taken)}"
    model.fit_source((batch, _Untouchable()) for batch in batches)  # type: ignore[misc]


class _Untouchable:
    """Stands for labels: whoever looks at it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"a label was looked at ({name})")


def check_non_finite_inputs(build: Build, batches: Batches) -> None:
    """NaN and Inf in a batch are reported, answered by the last good state, and never reach it."""
    model, twin = build(), build()
    for batch in batches[:-1]:
        model(batch), twin(batch)
    for poison in (float("nan"), float("inf"), -float("inf")):
        batch = batches[-1].clone()
        batch[0].flatten()[0] = poison
        before = weights_of(model)
        step = model.step(batch)
        assert step.skipped, f"{poison} in the inputs was not reported"
        assert torch.isfinite(step.logits).all(), f"{poison} in the inputs gave non-finite logits"
        assert_equal(before, weights_of(model), f"weights after {poison} in the inputs")
    assert_equal([twin(batches[-1])], [model(batches[-1])], "answers after a bad batch")


def check_answering_alone(build: Build, batches: Batches) -> None:
    """An answer that may not be learnt from is the same twice, and the future is as if it had never been asked for."""
    model, twin = build(), build()
    for batch in batches[:-1]:
        model(batch), twin(batch)
    first, second = (model.predict(batches[-1]).logits for _ in range(2))
    assert_equal([first], [second], "two answers of a frozen model")
    assert_equal([twin(batches[-1])], [model(batches[-1])], "answers after a frozen one")


def check_export(build: Build, batches: Batches) -> None:
    """The exported module answers like the frozen model, carries no hook, and no longer changes."""
    model = build()
    for batch in batches[:-1]:
        model(batch)
    exported = model.export()
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in exported.modules()), "export has hooks"
    assert not any(parameter.requires_grad for parameter in exported.parameters()), "export is not frozen"
    with torch.no_grad():
        first, second = (logits_of(exported(batches[-1])) for _ in range(2))
    assert_equal([first], [second], "two calls of the exported module")
    model.method.paused = True  # some methods answer after they have learnt from the batch; an export does not learn
    with torch.no_grad():
        expected = model.method.predict(batches[-1])
    assert_equal([expected], [first], "answers of the exported module")


METHOD_CHECKS: tuple[Callable[[Build, Batches], None], ...] = (
    check_answers,
    check_exact_reset,
    check_same_future_after_saving,
    check_batch_of_one,
    check_repeatable,
    check_no_label_in_sight,
    check_non_finite_inputs,
    check_answering_alone,
    check_export,
    check_failed_steps,
    check_empty_batch,
    check_far_inputs,
    check_threads,
    check_autocast,
)

# These compare objects that were built one by one; for the others a copy of an unused one is as good, and quicker.
BUILT_EACH_TIME = {check_same_future_after_saving, check_repeatable}
