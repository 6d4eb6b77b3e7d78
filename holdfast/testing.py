"""The contracts, as public functions: what every method, estimator and recovery must hold, third parties' included.

>>> import torch
>>> from holdfast.models.tiny import tiny_resnet
>>> batches = torch.rand(3, 8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
>>> check_method("tent", tiny_resnet(), list(batches))
"""

from __future__ import annotations

import copy
import inspect
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.adapted import AdaptedModel
from holdfast.estimators import ESTIMATORS, Estimator
from holdfast.methods import METHODS, Method
from holdfast.models.classifier import weights_digest
from holdfast.recipes import adapt, recipe_names, recipe_of
from holdfast.records import Estimate
from holdfast.recovery import RECOVERIES, Recovery

__all__ = ["METHOD_CHECKS", "check_estimator", "check_method", "check_recovery"]

Build = Callable[[], AdaptedModel]
Batches = Sequence[Tensor]

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
    refusal = _refusal(build)
    if refusal is not None:
        assert any(repr(name) in refusal for name in recipe_names()), f"the refusal names no alternative: {refusal}"
        return
    for check in METHOD_CHECKS:
        check(build, batches)
    assert weights_digest(model) == before, "the caller's model was changed"


def _refusal(build: Build) -> str | None:
    try:
        build()
    except ValueError as error:
        return str(error)
    return None


def _build(method: str | type[Method], model: nn.Module, source: Batches, options: dict[str, Any]) -> AdaptedModel:
    kind = METHODS[recipe_of(method).method] if isinstance(method, str) else method
    return adapt(model, method, source=source if kind.needs_source else None, **options)


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
    before = _weights(model)
    first = [model(batch) for batch in batches]
    model.reset()
    _same(before, _weights(model), "weights after reset")
    _same(first, [model(batch) for batch in batches], "answers after reset")


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
    _same(expected, [loaded(batch) for batch in batches[half:]], "answers after save and load")
    _same(expected, [copied(batch) for batch in batches[half:]], "answers after load_state_dict")


def check_batch_of_one(build: Build, batches: Batches) -> None:
    """Samples that come one at a time are answered with finite logits and leave finite weights."""
    model = build()
    for sample in batches[0]:
        assert torch.isfinite(model(sample[None])).all(), "a batch of one has non-finite logits"
    assert all(torch.isfinite(tensor).all() for tensor in _weights(model)), "batches of one left non-finite weights"


def check_repeatable(build: Build, batches: Batches) -> None:
    """Two runs with the same seed are equal to the bit, whatever the global generator has been used for."""
    first, second = build(), build()
    expected = [first(batch) for batch in batches]
    state = torch.get_rng_state()
    torch.rand(7)
    try:
        _same(expected, [second(batch) for batch in batches], "answers of a second run")
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
        before = _weights(model)
        step = model.step(batch)
        assert step.skipped, f"{poison} in the inputs was not reported"
        assert torch.isfinite(step.logits).all(), f"{poison} in the inputs gave non-finite logits"
        _same(before, _weights(model), f"weights after {poison} in the inputs")
    _same([twin(batches[-1])], [model(batches[-1])], "answers after a bad batch")


def check_answering_alone(build: Build, batches: Batches) -> None:
    """An answer that may not be learnt from is the same twice, and the future is as if it had never been asked for."""
    model, twin = build(), build()
    for batch in batches[:-1]:
        model(batch), twin(batch)
    first, second = (model.predict(batches[-1]).logits for _ in range(2))
    _same([first], [second], "two answers of a frozen model")
    _same([twin(batches[-1])], [model(batches[-1])], "answers after a frozen one")


def check_export(build: Build, batches: Batches) -> None:
    """The exported module answers like the frozen model, carries no hook, and no longer changes."""
    model = build()
    for batch in batches[:-1]:
        model(batch)
    exported = model.export()
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in exported.modules()), "export has hooks"
    assert not any(parameter.requires_grad for parameter in exported.parameters()), "export is not frozen"
    with torch.no_grad():
        first, second = (_logits(exported(batches[-1])) for _ in range(2))
    _same([first], [second], "two calls of the exported module")
    model.method.paused = True  # some methods answer after they have learnt from the batch; an export does not learn
    with torch.no_grad():
        expected = model.method.predict(batches[-1])
    _same([expected], [first], "answers of the exported module")


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
)


def check_estimator(estimator: str | Estimator, model: nn.Module, batches: Batches, *, method: str = "tent") -> None:
    """An estimate lies in 0 … 1 or says why it is unknown, is remade after loading, and no answer changes for it."""
    name = estimator if isinstance(estimator, str) else ESTIMATORS.name_of(type(estimator))
    holdout = [(batch, torch.zeros(len(batch), dtype=torch.long)) for batch in batches[:1]]

    def build(watching: str | Estimator | None) -> AdaptedModel:
        return adapt(model, method, estimator=copy.deepcopy(watching), source=batches[:1], holdout=holdout)

    watched, again, alone = build(estimator), build(estimator), build(None)
    state = torch.get_rng_state()
    for batch in (*batches, batches[0][:1]):
        step = watched.step(batch)
        _check_estimate(name, step.estimates[name])
        _same([alone(batch)], [step.logits], f"answers beside {name}")
    assert torch.equal(state, torch.get_rng_state()), f"{name} draws from the global generator"
    _same(_weights(alone), _weights(watched), f"weights beside {name}")
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in watched.modules()), f"{name} left hooks"
    with tempfile.TemporaryDirectory() as folder:
        watched.save(Path(folder) / "state.safetensors")
        again.load(Path(folder) / "state.safetensors")
    expected, found = (model.step(batches[0]).estimates[name] for model in (watched, again))
    assert repr(expected) == repr(found), f"{name} forgot its state: {expected} became {found}"  # nan is not nan


def _check_estimate(name: str, estimate: float) -> None:
    """An accuracy lies between 0 and 1 and inside its interval; one that is unknown is nan and says why."""
    if isinstance(estimate, Estimate) and estimate.unknown is not None:
        assert math.isnan(estimate), f"{name} estimated {estimate}, and that it is unknown: {estimate.unknown}"
        assert estimate.unknown.strip(), f"{name} does not know the accuracy, and does not say why"
        return
    assert 0.0 <= estimate <= 1.0, f"{name} estimated {estimate}"
    if isinstance(estimate, Estimate) and estimate.low is not None and estimate.high is not None:
        assert 0.0 <= estimate.low <= estimate <= estimate.high <= 1.0, f"{name}: {estimate} is not in its interval"


def check_recovery(recovery: str | Recovery, model: nn.Module, batches: Batches) -> None:
    """A recovery gives a reason whenever it goes back, and its own state survives saving."""
    name = recovery if isinstance(recovery, str) else RECOVERIES.name_of(type(recovery))
    adapted = adapt(model, "tent", recovery=recovery)
    for batch in batches:
        reason = adapted.step(batch).recovered
        assert reason is None or reason.strip(), f"{name} went back without a reason"
    with tempfile.TemporaryDirectory() as folder:
        adapted.save(Path(folder) / "state.safetensors")
        again = adapt(model, "tent", recovery=recovery)
        again.load(Path(folder) / "state.safetensors")
    expected = [adapted.step(batch) for batch in batches]
    found = [again.step(batch) for batch in batches]
    assert [step.recovered for step in expected] == [step.recovered for step in found], f"{name} forgot its state"
    _same([step.logits for step in expected], [step.logits for step in found], f"answers beside {name}")


def _weights(model: AdaptedModel) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in _tensors(model)]


def _tensors(model: AdaptedModel) -> Iterator[Tensor]:
    yield from model.method.parameters()
    yield from model.method.buffers()


def _logits(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output.logits


def _same(expected: Sequence[Tensor], found: Sequence[Tensor], what: str) -> None:
    for left, right in zip(expected, found, strict=True):
        assert torch.equal(left, right), f"{what} differ by up to {float((left - right).abs().max()):.2g}"
