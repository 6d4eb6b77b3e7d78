"""AdaptedModel: predict, estimate, adapt, recover, as one transaction. What the benchmark runs is what users deploy."""

from __future__ import annotations

import copy
import itertools
import json
import logging
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from holdfast.anchor import Reference
from holdfast.blocks.norm import NormLayer
from holdfast.estimators import ESTIMATORS, Estimator, Observation
from holdfast.methods import METHODS, Method
from holdfast.methods._export import Statistics, export
from holdfast.model.input_checks import check_dtype, check_inputs, explain_inputs
from holdfast.model.input_range import InputRange, magnitude
from holdfast.model.pending import Pending
from holdfast.model.saved_checks import check_saved
from holdfast.model.transaction import Savepoint, Transactions
from holdfast.models.classifier import Classifier
from holdfast.models.inputs import inputs_alone, inputs_and_labels, single_input
from holdfast.models.normalised import Normalise
from holdfast.models.partial_forward import Recorded, recording
from holdfast.models.preprocessing import preprocessing_of
from holdfast.models.sharing import copies_of_empty, flags_as_given
from holdfast.records import Beside, Estimate, SetupWarning, Step, Update
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.recovery.never import Never
from holdfast.registry import options_of
from holdfast.state import (
    SavedStateError,
    Stateful,
    map_tensors,
    pack_state,
    read_state,
    state_digest,
    write_durably,
)

__all__ = ["AdaptedModel", "SourceBatch", "check_estimator_name"]

LOG = logging.getLogger(__name__)
# Inputs; inputs with labels; or both by name, as Hugging Face's loaders return them.
SourceBatch: TypeAlias = "Tensor | Sequence[Tensor] | Mapping[str, Tensor]"

SHOWN_BATCHES = 8  # source batches that a method does not ask for, looked at for the range of their values


class AdaptedModel(nn.Module):
    """A classifier that adapts to the inputs it predicts; it is called like any other module.

    A step is a transaction: when anything in it raises, the state afterwards is the state before. An error before there
    is a prediction is raised; one after it leaves the update out, and the step says so in `skipped`. Steps from several
    threads run one after the other. Copies (`copy.deepcopy`, pickle, a forked process) adapt independently.

    `train()` and `eval()` set the flag `training` and nothing else: the method decides in which mode its layers run,
    and the model adapts in both. `predict` predicts without adapting; `export` returns a network that does not adapt.
    """

    def __init__(
        self,
        method: Method,
        *,
        estimators: Mapping[str, Estimator] | None = None,
        recovery: Recovery | None = None,
        name: str | None = None,
        preset: str | None = None,
        weights: str = "",
        source: Classifier | None = None,
    ) -> None:
        super().__init__()
        self.method = method
        self._source = source  # the caller's network as it was given; shares the weights that the method does not train
        self.estimators = dict(estimators or {})
        for watching in self.estimators:
            check_estimator_name(watching)
        self._watching = nn.ModuleDict(self.estimators)  # so that their state is saved and moved with the rest
        self.recovery = recovery or Never()
        self.input_range = InputRange(method.model.input_spec.kind, known=_known_range(method.model))
        self.name = name or METHODS.name_of(type(method))
        self.preset = preset
        self.weights = weights  # digest of the source model
        self._transactions = Transactions()
        self._single_samples_seen = False

    @property
    def recipe(self) -> dict[str, Any]:
        """Names and options, as plain JSON, from which this object can be built again."""
        return {
            "name": self.name,
            "method": METHODS.name_of(type(self.method)),
            "preset": self.preset,
            "options": _options(self.method),
            "recovery": RECOVERIES.name_of(type(self.recovery)),
            "recovery_options": _options(self.recovery),
            "estimators": {name: _watching(name, estimator) for name, estimator in self.estimators.items()},
        }

    def forward(self, inputs: Tensor | Mapping[str, Tensor] | None = None, **named: Tensor) -> Tensor:
        """Predict a batch and adapt to it; return the logits."""
        return self.step(inputs, **named).logits

    def step(self, inputs: Tensor | Mapping[str, Tensor] | None = None, **named: Tensor) -> Step:
        """Predict a batch, estimate the accuracy, adapt, recover if necessary, and return what was done.

        The batch is a tensor, a mapping with one tensor, or a keyword such as `pixel_values=…`.

        >>> from holdfast.models.tiny import tiny_resnet
        >>> from holdfast.model.adapt import adapt
        >>> model = adapt(tiny_resnet(), "tent")
        >>> model.step(torch.rand(8, 3, 32, 32)).skipped
        >>> model.step(torch.full((8, 3, 32, 32), 255.0)).skipped
        'inputs reach 255, over 10 times the usual 1'
        """
        with self._transactions.exclusive():
            return self.begin(single_input(inputs, named)).finish()

    def begin(
        self, inputs: Tensor | Mapping[str, Tensor] | None = None, *, adapt: bool = True, **named: Tensor
    ) -> Pending:
        """Predict a batch now and adapt to it later: `pending.logits` at once, `pending.finish()` does the rest.

        Until then the batch is pending, and any other use of the model finishes it first. With `adapt=False` finishing
        estimates the accuracy and changes nothing.

        >>> from holdfast.models.tiny import tiny_resnet
        >>> from holdfast.model.adapt import adapt
        >>> model, batch = adapt(tiny_resnet(), "tent"), torch.rand(8, 3, 32, 32)
        >>> pending = model.begin(batch)
        >>> classes = pending.logits.argmax(1)
        >>> pending.finish().skipped
        """
        batch = single_input(inputs, named)
        self._check(batch)
        if adapt and len(batch) == 1:
            self._warn_of_single_samples()
        with self._transactions.exclusive(), self._modes(learning=adapt):
            if batch.is_inference():
                batch = batch.clone()
            with self._transactions.begin(*self._parts()) as savepoints:
                begun = self._begin(batch.detach(), savepoints, learning=adapt)
                done = [Step(begun.prediction, skipped="the update was interrupted")]
                precision = _autocast(begun.prediction)

                def complete() -> None:
                    with self._modes(learning=adapt), precision():
                        done[0] = self._finish(begun, savepoints, learning=adapt)
                        if not adapt:
                            for savepoint in savepoints:
                                savepoint.restore()

                self._transactions.hold(savepoints, complete)

        def finish() -> Step:
            with self._transactions.exclusive():
                return done[0]

        return Pending(begun.prediction, finish, predicts=self.method.predicts)

    def _check(self, inputs: Tensor) -> None:
        network = self.method.model
        check_inputs(inputs, network.input_spec, network.input_dtype)

    @contextmanager
    def _modes(self, *, learning: bool) -> Iterator[None]:
        # The caller may be in inference mode, whose tensors cannot take part in a backward pass.
        with torch.inference_mode(False), torch.set_grad_enabled(learning and bool(self.method.trained)):
            yield

    def predict(self, inputs: Tensor | Mapping[str, Tensor] | None = None, **named: Tensor) -> Step:
        """Predict a batch and estimate the accuracy without changing anything."""
        with self._transactions.exclusive():
            return self.begin(single_input(inputs, named), adapt=False).finish()

    def _warn_of_single_samples(self) -> None:
        """Warn once if a batch of one is normalised with its own statistics."""
        first, self._single_samples_seen = not self._single_samples_seen, True
        if first and any(isinstance(layer, NormLayer) and layer.uses_batch for layer in self.method.modules()):
            warnings.warn(
                f"got a batch of one, and {self.name!r} normalises with the statistics of each batch; collect larger "
                "batches, or choose a method that stores statistics, such as 'robust_bn' or 'rotta'",
                SetupWarning,
                stacklevel=4,
            )

    def _parts(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """Return the modules that learn from batches, and those that count and judge them."""
        return [*self.method.modules(), *self._watching.modules()], [*self.recovery.modules(), self.input_range]

    def _begin(self, inputs: Tensor, savepoints: Sequence[Savepoint], *, learning: bool) -> _Begun:
        samples = self._samples()
        recovered = self.recovery.begin(self.method.recovering) if learning else None
        # When the logits are not finite, the method returns to here, not to before the reset.
        learnt = savepoints[0] if recovered is None else Savepoint(self._parts()[0])
        self.method.paused = not learning
        try:
            logits, recorded = self._predict(inputs)
        except Exception:
            refusal, finite = self._examine(inputs)
            if refusal is None:  # it is not because of the values
                raise
        else:
            refusal, finite = self._examine(inputs, logits.detach())
        if refusal is not None:  # predict once more, without learning from these values
            learnt.restore()
            self.method.paused = True
            inputs, refusal = _without_non_finite(inputs, refusal)
            logits, recorded = self._predict(inputs)
        elif not finite:
            learnt.restore()
            refusal = "non-finite logits"
        return _Begun(inputs, logits, logits.detach(), recorded, samples, recovered, refusal)

    def _finish(self, begun: _Begun, savepoints: Sequence[Savepoint], *, learning: bool) -> Step:
        inputs, prediction, refusal = begun.inputs, begun.prediction, begun.refusal
        estimates: dict[str, Estimate] = self._unknown(refusal or "the step failed")
        try:
            if refusal is None:
                estimates = self._estimate(inputs, prediction, begun.recorded)
            update, beside = Update(skipped=refusal), None
            if learning and refusal is None:
                if self.recovery.compares:
                    network_logits = self.method.network_logits(prediction)
                    beside = Beside(network_logits, self.method.source_logits(inputs))
                update = self.method.adapt(inputs, begun.logits)
            forwards, backwards = self._passes(begun.samples, len(inputs))
            gauges = self.method.gauges()
            reason = begun.recovered or update.recovered
            step = Step(
                prediction, update.loss, estimates, reason, update.skipped, forwards, backwards, gauges, beside=beside
            )
            reason = self.recovery.recover(self.method.recovering, step) if learning else None
            return step if reason is None else replace(step, recovered=reason)
        except Exception as error:
            forwards, backwards = self._passes(begun.samples, len(inputs))
            for savepoint in savepoints:
                savepoint.restore()
            LOG.warning("the update failed and was undone; the prediction is returned", exc_info=error)
            failure = f"{type(error).__name__}: {error}"
            return Step(prediction, None, estimates, None, failure, forwards, backwards)

    def _examine(self, inputs: Tensor, logits: Tensor | None = None) -> tuple[str | None, bool]:
        """Return why inputs are not adapted to, or None, and whether the logits are finite: the host waits once."""
        finite = torch.isfinite(inputs.new_zeros(()) if logits is None else logits).all()
        if not inputs.is_floating_point():  # indices have no scale, and bytes cannot leave theirs
            return None, bool(finite)
        reached, is_finite = torch.stack([magnitude(inputs), finite.to(inputs)]).tolist()
        return self.input_range.refusal(reached), bool(is_finite)

    def _predict(self, inputs: Tensor) -> tuple[Tensor, Recorded]:
        """Return the prediction, and what estimators want of the pass that made it."""
        network = self.method.predictor
        wanted = {name for estimator in self.estimators.values() for name in estimator.reuses(network)}
        try:
            if not self.estimators:
                return self.method.predict(inputs), Recorded()
            with recording(network, inputs, wanted) as recorded:
                return self.method.predict(inputs), recorded
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = explain_inputs(inputs, network.input_spec, network.input_dtype)
            if reason is None:
                raise
            raise ValueError(reason) from error

    def _estimate(self, inputs: Tensor, prediction: Tensor, recorded: Recorded) -> dict[str, Estimate]:
        """Return the estimates, made while the network is still the one that predicted."""
        if not self.estimators:
            return {}
        network = self.method.predictor
        now = self.method.moving()
        origin = {id(now[name]): tensor for name, tensor in self.method.origin.items()}
        named = itertools.chain(network.named_parameters(), network.named_buffers())
        moving = {name: tensor for name, tensor in named if id(tensor) in origin}
        seen = Observation(
            inputs,
            prediction,
            network,
            recorded=recorded,
            moving=moving,
            origin={name: origin[id(tensor)] for name, tensor in moving.items()},
            source=self._source,
        )
        with torch.no_grad(), self.method.predictor_head():
            return {name: estimator.estimate(seen) for name, estimator in self.estimators.items()}

    def _unknown(self, reason: str) -> dict[str, Estimate]:
        return {name: Estimate(math.nan, unknown=reason) for name in self.estimators}

    def _samples(self) -> tuple[int, int]:
        """Return how many samples have gone through the networks, forwards and backwards."""
        networks = (part for part in self.modules() if isinstance(part, Classifier))
        return sum(network.samples_forwarded for network in networks), self.method.samples_backwarded

    def _passes(self, before: tuple[int, int], batch_size: int) -> tuple[float, float]:
        forwarded, backwarded = self._samples()
        return (forwarded - before[0]) / batch_size, (backwarded - before[1]) / batch_size

    @property
    def source_network(self) -> Classifier:
        """The network as it was given; it shares the weights that the method does not train."""
        if self._source is None:
            raise ValueError("this model was built without its source; build it with holdfast.adapt")
        return self._source

    @torch.no_grad()
    def source(self, inputs: Tensor | Mapping[str, Tensor] | None = None, **named: Tensor) -> Tensor:
        """Return the logits of the source: bit-equal to those of the network that was given, in eval mode.

        >>> from holdfast.models.tiny import tiny_resnet
        >>> from holdfast.model.adapt import adapt
        >>> network, batch = tiny_resnet().eval(), torch.rand(8, 3, 32, 32)
        >>> model = adapt(network, "tent")
        >>> torch.equal(model.source(batch), network(batch)), torch.equal(model(batch), network(batch))
        (True, False)
        """
        batch = single_input(inputs, named)
        self._check(batch)
        with self._transactions.exclusive(), flags_as_given(self.source_network):
            logits: Tensor = self.source_network(batch)
            return logits.detach()

    def enter_domain(self, domain: str) -> None:
        """Announce the next domain: known in benchmarks only, and used by oracles only."""
        with self._transactions.exclusive():
            self.recovery.enter_domain(domain)

    def fit_source(self, batches: Iterable[SourceBatch]) -> None:
        """Show the method unlabelled source inputs before the first batch; of (inputs, labels) only inputs are used."""

        def shown() -> Iterator[Tensor]:
            for batch in batches:
                inputs = inputs_alone(batch)
                self._show(inputs)
                yield inputs

        source = shown()
        with torch.inference_mode(False), self._transactions.begin(*self._parts()):
            self.method.fit_source(source)
            for _ in itertools.islice(source, SHOWN_BATCHES):
                pass

    def refer_to(self, reference: Reference) -> None:
        """Give the method and the estimators the moments of the source's own data, before the first batch."""
        with torch.inference_mode(False), torch.no_grad(), self._transactions.begin(*self._parts()):
            self.method.refer_to(reference)
            for estimator in self.estimators.values():
                estimator.refer_to(reference)

    def fit_holdout(self, batches: Iterable[SourceBatch]) -> None:
        """Show held-out source data, (inputs, labels) or inputs alone, to estimators that need it, never to methods."""
        pairs = [inputs_and_labels(batch) for batch in batches]
        with torch.inference_mode(False), torch.no_grad(), self._transactions.begin(*self._parts()):
            for inputs, _ in pairs:
                self._show(inputs)
            for name, estimator in self.estimators.items():
                if estimator.needs == "labels" and any(labels is None for _, labels in pairs):
                    raise ValueError(
                        f"{name!r} needs the labels of held-out source data: pass holdout=[(inputs, labels), …]"
                    )
                if estimator.needs != "nothing":
                    estimator.fit(pairs, self.method.predictor)

    def _show(self, inputs: Tensor) -> None:
        """Take source inputs for usual; indices and bytes have a scale of their own."""
        network = self.method.model
        check_dtype(inputs, network.input_spec, network.input_dtype)
        if inputs.is_floating_point():
            self.input_range.show(inputs)

    def reset(self) -> None:
        """Return to the state at construction: the future is that of a new object.

        The next prediction is that of the method before its first update. For a method that normalises with batch
        statistics this is not the source's prediction, which `source` returns.
        """
        with self._transactions.begin(*self._parts()):
            self.method.reset()
            for part in (self.recovery, self.input_range, *self.estimators.values()):
                part.reset_state()

    def export(self, *, statistics: Statistics = "batch", inputs: Tensor | None = None) -> nn.Module:
        """Return the predicting network as a plain module that no longer adapts, after checking its predictions.

        With `statistics="batch"` the module of a method that normalises with batch statistics still does so: a
        prediction depends on the rest of its batch, and a batch of one is predicted badly. With `"frozen"` the
        statistics are fixed, to those of `inputs` where the method stores none.
        """
        if inputs is not None:
            self._check(inputs)
        with torch.inference_mode(False), self._transactions.exclusive():
            return export(self.method, statistics, inputs)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed, for `return_to`; small beside the network.

        >>> from holdfast.models.tiny import tiny_resnet
        >>> from holdfast.model.adapt import adapt
        >>> model, batch = adapt(tiny_resnet(), "tent"), torch.rand(8, 3, 32, 32)
        >>> before = model.snapshot(); _ = model(batch); changed = model.digest()
        >>> model.return_to(before); _ = model(batch); model.digest() == changed
        True
        """
        with self._transactions.exclusive():
            return {
                name: value.detach().clone() if isinstance(value, Tensor) else value
                for name, value in self._changed().items()
            }

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot of this model exactly: the future is that of the model at that time."""
        with torch.inference_mode(False), torch.no_grad(), self._transactions.exclusive():
            moving = self.method.moving()
            for name, source in self.method.origin.items():
                moving[name].copy_(snapshot.get(f"method.{name}", source))
            for name, part in self._declaring():
                part.set_extra_state(snapshot[f"{name}._extra_state"])

    def digest(self) -> str:
        """Return a hex digest of all that adaptation has changed; labels that came back are not part of it."""
        with self._transactions.exclusive():
            return state_digest({name: value for name, value in self._changed().items() if not _of_labels(name)})

    def _changed(self) -> dict[str, Any]:
        """Return the moving tensors that differ from their source values, and the declared state of every part."""
        moving = self.method.moving()
        moved: dict[str, Any] = {
            f"method.{name}": moving[name]
            for name, source in self.method.origin.items()
            if not torch.equal(moving[name], source)
        }
        return {**moved, **{f"{name}._extra_state": part.get_extra_state() for name, part in self._declaring()}}

    def _declaring(self) -> list[tuple[str, Stateful]]:
        return [(name, part) for name, part in self.named_modules() if isinstance(part, Stateful)]

    def save(self, path: str | Path, *, note: Any = None) -> None:
        """Write all that adaptation has changed to one safetensors file with a JSON header, a note and a checksum."""
        write_durably(Path(path), self.saved(note=note))

    def saved(self, *, note: Any = None) -> bytes:
        """Return the content of the file that `save` writes."""
        header = {"recipe": self.recipe, "weights": self.weights, "note": note}
        with self._transactions.exclusive():
            return pack_state(self._moving_state(), header)

    def load(self, path: str | Path) -> Any:
        """Load what `save` wrote, for the same source model and recipe, and return its note; else change nothing."""
        state, header = read_state(Path(path))
        if set(header) != {"recipe", "weights", "note"}:
            raise SavedStateError(f"{path} is not the state of an adapted model; pass a file that `save` wrote")
        if header["weights"] != self.weights:
            raise SavedStateError(
                f"{path} belongs to a model with other weights ({str(header['weights'])[:8]}, here "
                f"{self.weights[:8]}); adapt the model it was saved from and load it there"
            )
        if header["recipe"] != self.recipe:
            here, there = self.recipe, dict(header["recipe"] or {})
            fields = [key for key in sorted({*here, *there}) if here.get(key) != there.get(key)]
            told = "; ".join(f"{key} is {there.get(key)!r} there and {here.get(key)!r} here" for key in fields)
            raise SavedStateError(f"{path} was saved by another recipe: {told}; adapt with the same options")
        try:
            with torch.inference_mode(False), self._transactions.begin(*self._parts()):
                self._load(state)
        except (ValueError, RuntimeError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise SavedStateError(f"{path} does not fit this model ({error}); use another copy of it") from error
        return header["note"]

    def _load(self, state: Mapping[str, Any]) -> None:
        """Take a saved state, or raise when it does not fit, contradicts itself, or makes predicting impossible."""
        check_saved(state, self._expected_state(), self.method.model.dtype)
        could = self._can_predict()
        self.load_state_dict({**self.state_dict(), **state})
        for part in self.modules():
            if isinstance(part, Stateful):
                part.check_state()
        if could and not self._can_predict():
            raise ValueError("the model cannot predict with it")

    def _can_predict(self) -> bool:
        """Try to predict two inputs."""
        network = self.method.model
        savepoints = [Savepoint(modules) for modules in self._parts()]
        try:
            self.method.paused = True
            inputs = network.trial_inputs()
            with torch.no_grad():
                logits, recorded = self._predict(inputs)
                self._estimate(inputs, logits, recorded)
            return bool(torch.isfinite(logits).all())
        except Exception:
            return False
        finally:
            for savepoint in savepoints:
                savepoint.restore()

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Return torch's state dict without the source, which is the caller's own file and never changes."""
        found = super().state_dict(*arguments, **options)
        prefix = options.get("prefix", "") + "_source."
        for name in [name for name in found if name.startswith(prefix)]:
            del found[name]
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state dict; declared tensors go to the device of the model, as all others do."""
        device = self.method.model.device

        def placed(name: str, value: Any) -> Any:
            # torch moves parameters and buffers, and an optimiser its moments, but not its counts of steps.
            if not isinstance(value, dict) or not name.endswith("_extra_state"):
                return value
            return {
                key: item if key == "optimizer" else map_tensors(lambda tensor: tensor.to(device), item)
                for key, item in value.items()
            }

        moved = OrderedDict((name, placed(name, value)) for name, value in state_dict.items())
        if self._source is not None:  # it stays as it is
            moved.update((f"_source.{name}", value) for name, value in self._source.state_dict().items())
        vars(moved).update(_metadata=getattr(state_dict, "_metadata", None))  # torch's versions of modules
        with self._transactions.exclusive():
            return super().load_state_dict(moved, strict, assign)

    def _moving_state(self) -> dict[str, Any]:
        """Return the part of `state_dict` that can change: frozen weights stay in the caller's own file."""
        expected = self._expected_state()
        return {name: value for name, value in self.state_dict().items() if name in expected}

    def _expected_state(self) -> dict[str, Any]:
        """Return the names of all that can change: with tensors, and with the defaults of declared state."""
        present = self.state_dict()
        moving = {f"method.{name}" for name in self.method.moving()}
        expected = {name: tensor for name, tensor in present.items() if name in moving}
        return {**expected, **{f"{name}._extra_state": part.declared() for name, part in self._declaring()}}

    def train(self, mode: bool = True) -> AdaptedModel:
        """Set the flag and nothing else: the method alone decides in which mode its layers run."""
        self.training = mode
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> AdaptedModel:
        with self._transactions.exclusive():
            self._transactions.forget()
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        with self._transactions.exclusive():  # nothing is pending in a pickle
            return vars(self).copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> AdaptedModel:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        with self._transactions.exclusive():  # no other thread is in the middle of a step
            for place, empty in copies_of_empty(self).items():
                memo.setdefault(place, empty)
            vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied


@dataclass(frozen=True)
class _Begun:
    """The first half of a step: the prediction, and what the second half needs."""

    inputs: Tensor
    logits: Tensor  # with their graph
    prediction: Tensor
    recorded: Recorded
    samples: tuple[int, int]  # that had gone through the networks before
    recovered: str | None
    refusal: str | None  # why this batch is not adapted to


def _autocast(prediction: Tensor) -> Callable[[], AbstractContextManager[Any]]:
    """Return what restores today's autocast: the second half of a step may run elsewhere."""
    device = prediction.device.type
    if not torch.is_autocast_enabled(device):
        return nullcontext
    return partial(torch.autocast, device, torch.get_autocast_dtype(device))


def _without_non_finite(inputs: Tensor, refusal: str) -> tuple[Tensor, str]:
    """Return refused inputs with zeros for values that are not finite, and why they are refused."""
    bad = int((~torch.isfinite(inputs)).flatten(1).any(1).sum())
    if not bad:
        return inputs, refusal
    return inputs.nan_to_num(0.0, 0.0, 0.0), f"non-finite values in {bad} of {len(inputs)} inputs"


def _of_labels(name: str) -> bool:
    return name.startswith("labels.")


def _known_range(network: nn.Module) -> float | None:
    """Return the largest magnitude of inputs to networks that a zoo prepares, or that normalise images in [0, 1]."""
    normalises = any(isinstance(part, Normalise) for part in network.modules())
    return 1.0 if normalises or preprocessing_of(network) is not None else None


def check_estimator_name(name: str) -> None:
    """Raise for a name that torch cannot keep an estimator's state under."""
    if not name or "." in name or hasattr(nn.ModuleDict(), name):
        better = name.replace(".", "_") if "." in name else f"{name}_estimate"
        raise ValueError(f"{name!r} cannot be the name of an estimator; choose one without full stops, e.g. {better!r}")


def _watching(name: str, estimator: Estimator) -> dict[str, Any]:
    """Return the options of an estimator, and its registered name if it is configured under another."""
    kind = ESTIMATORS.name_of(type(estimator))
    return {**({} if name == kind else {"name": kind}), **_options(estimator)}


def _options(part: object) -> dict[str, Any]:
    """Return the options a part was built with; each is kept in an attribute of the same name."""
    plain = json.dumps({name: getattr(part, name) for name in options_of(type(part))})
    return dict(json.loads(plain))
