"""Contracts of a method: predictions, reset, saving, repeatability, non-finite inputs, export."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.blocks.comparing import close
from holdfast.methods import METHODS, Method
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.classifier import weights_digest
from holdfast.recipes import recipe_names, recipe_of
from holdfast.testing.comparison import Batches, assert_equal, logits_of, weights_of
from holdfast.testing.contract import contract, sentence_of
from holdfast.testing.faults import (
    check_autocast,
    check_empty_batch,
    check_failed_steps,
    check_far_inputs,
    check_threads,
)
from holdfast.testing.trial import Trial

EXPORTED = 0.01  # of the usual slack: a graph adds in another order

_LABEL_WORDS = {"label", "labels", "target", "targets", "y", "domain", "domains"}


def check_method(
    method: str | type[Method],
    model: nn.Module,
    batches: Batches,
    *,
    source: Batches | None = None,
    **options: Any,
) -> None:
    """Run every contract of a method on one network and print a line for each; one that fails raises AssertionError.

    A method may refuse a network, if it does so before the first batch and names an alternative.

    Args:
        method: a name, or a `Method` class.
        model: a network.
        batches: at least three batches of inputs.
        source: unlabelled source inputs, for methods that need them.
        **options: of the method.
    """
    before = weights_digest(model)
    trial = Trial(partial(_build, method, model, list(source or batches[:1]), options), batches)
    try:
        trial.unused()
    except ValueError as error:
        refusal = str(error)
        with contract("A network that does not suit is refused before the first batch, naming an alternative."):
            named = any(repr(name) in refusal for name in recipe_names())
            assert named, f"the refusal names no alternative: {refusal}"
        return
    for check in METHOD_CHECKS:
        with contract(sentence_of(check)):
            check(trial)
    with contract("The network that is passed stays as it is."):
        assert weights_digest(model) == before, "the caller's model was changed"


def _build(method: str | type[Method], model: nn.Module, source: Batches, options: dict[str, Any]) -> AdaptedModel:
    kind = METHODS[recipe_of(method).method] if isinstance(method, str) else method
    wanted = kind.requires_source(options) or kind.uses_reference
    return adapt(model, method, source=source if wanted else None, **options)


def check_predictions(trial: Trial) -> None:
    """Every sample gets finite logits, whatever gradient mode the caller is in."""
    model, batches = trial.adapted(), trial.batches
    classes = model.method.model.num_classes
    for batch, logits in zip(batches, trial.predictions, strict=True):
        assert logits.shape == (len(batch), classes)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            logits = model(batches[0] + 0)  # under inference mode the sum is an inference tensor
            assert logits.shape == (len(batches[0]), classes), f"wrong shape under {mode.__name__}"
            assert torch.isfinite(logits).all(), f"non-finite logits under {mode.__name__}"
            assert not logits.requires_grad, "the prediction has a graph"


def check_exact_reset(trial: Trial) -> None:
    """After a reset the model is bit-equal to a new one, and so are its later predictions."""
    model = trial.adapted()
    model.reset()
    assert_equal(weights_of(trial.unused()), weights_of(model), "weights after reset")
    assert_equal(trial.predictions, [model(batch) for batch in trial.batches], "predictions after reset")


def check_same_future_after_saving(trial: Trial) -> None:
    """Saved in the middle of a stream and loaded into a new object, the rest of the stream is predicted the same."""
    model, half = trial.unused(), max(1, len(trial.batches) // 2)
    for batch in trial.batches[:half]:
        model(batch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        model.save(path)
        loaded = trial.build()
        loaded.load(path)
    copied = trial.unused()
    copied.load_state_dict(model.state_dict())
    for restored, what in ((loaded, "save and load"), (copied, "load_state_dict")):
        later = [restored(batch) for batch in trial.batches[half:]]
        assert_equal(trial.predictions[half:], later, f"predictions after {what}")


def check_batch_of_one(trial: Trial) -> None:
    """Samples that come one at a time get finite logits and leave finite weights."""
    model = trial.unused()
    for sample in trial.batches[0][:4]:
        assert torch.isfinite(model(sample[None])).all(), "a batch of one has non-finite logits"
    assert all(torch.isfinite(tensor).all() for tensor in weights_of(model)), "batches of one left non-finite weights"


def check_repeatable(trial: Trial) -> None:
    """A second model with the same seed is equal to the bit, whatever the global generator has been used for."""
    second, state = trial.build(), torch.get_rng_state()
    torch.rand(7)
    try:
        repeated = [second(batch) for batch in trial.batches]
    finally:
        torch.set_rng_state(state)
    assert_equal(trial.predictions, repeated, "predictions of a second run")


def check_no_label_in_sight(trial: Trial) -> None:
    """No verb takes a label, and labels that come with source data are never looked at."""
    model = trial.unused()
    for verb in ("predict", "loss", "adapt", "fit_source"):
        taken = _LABEL_WORDS & set(inspect.signature(getattr(model.method, verb)).parameters)
        assert not taken, f"{verb} takes {sorted(taken)}"
    model.fit_source((batch, _Untouchable()) for batch in trial.batches)  # type: ignore[misc]


class _Untouchable:
    """Stands for labels: any look at it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"a label was looked at ({name})")


def check_non_finite_inputs(trial: Trial) -> None:
    """NaN and Inf in a batch are reported, predicted by the last good state, and never reach it."""
    model, last = trial.adapted(), trial.batches[-1]
    before = weights_of(model)
    for poison in (float("nan"), float("inf"), -float("inf")):
        batch = last.clone()
        batch[0].flatten()[0] = poison
        step = model.step(batch)
        assert step.skipped, f"{poison} in the inputs was not reported"
        assert torch.isfinite(step.logits).all(), f"{poison} in the inputs gave non-finite logits"
        assert_equal(before, weights_of(model), f"weights after {poison} in the inputs")
    assert_equal(trial.predictions[-1:], [model(last)], "predictions after a bad batch")


def check_predicting_alone(trial: Trial) -> None:
    """Predicting without learning gives the same twice, and changes no later prediction."""
    model, last = trial.adapted(), trial.batches[-1]
    first, second = (model.predict(last).logits for _ in range(2))
    assert_equal([first], [second], "two predictions of a paused model")
    assert_equal(trial.predictions[-1:], [model(last)], "predictions after a paused one")


def check_export(trial: Trial) -> None:
    """The exported module predicts like the paused model, carries no hook but of its parts, and no longer changes."""
    model, last = trial.adapted(), trial.batches[-1]
    exported = model.export()
    parts = list(exported.modules())
    hooks = [hook for part in parts for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())]
    assert all(getattr(hook, "__self__", None) in parts for hook in hooks), "export has hooks"
    assert not any(parameter.requires_grad for parameter in exported.parameters()), "export can be trained"
    with torch.no_grad():
        first, second = (logits_of(exported(last)) for _ in range(2))
    assert_equal([first], [second], "two calls of the exported module")
    model.method.pause()  # some methods predict after they have adapted to the batch; an export does not adapt
    with torch.no_grad():
        expected = model.method.predict(last)
    gap = float((expected - first).abs().max())
    assert close(first, expected, EXPORTED), f"predictions of the exported module differ by up to {gap:.2g}"


METHOD_CHECKS: tuple[Callable[[Trial], None], ...] = (
    check_predictions,
    check_exact_reset,
    check_same_future_after_saving,
    check_batch_of_one,
    check_repeatable,
    check_no_label_in_sight,
    check_non_finite_inputs,
    check_predicting_alone,
    check_export,
    check_failed_steps,
    check_empty_batch,
    check_far_inputs,
    check_threads,
    check_autocast,
)
