"""AdaptedModel: predict, estimate, adapt, recover, as one transaction. What the benchmark runs is what users deploy."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import torch
from torch import Tensor, nn

from holdfast.anchor import Reference
from holdfast.blocks.norm import NormLayer
from holdfast.estimators import Estimator
from holdfast.machine.folders import write_whole
from holdfast.methods import METHODS, Method
from holdfast.methods._export import PROBE_SAMPLES, Statistics, export
from holdfast.methods.blend import Blend
from holdfast.model.forms import Form, in_form
from holdfast.model.given import check_estimator_name, check_header, estimator_given, options_given
from holdfast.model.input_range import InputRange, known_range
from holdfast.model.parts import Parts
from holdfast.model.pending import Pending
from holdfast.model.transaction import Transactions
from holdfast.models.classifier import Classifier
from holdfast.models.input_checks import check_dtype, check_inputs
from holdfast.models.inputs import inputs_alone, inputs_and_labels, single_input
from holdfast.models.sharing import copies_of_empty, flags_as_given
from holdfast.records import SetupWarning, Step
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.recovery.never import Never
from holdfast.state import (
    Contents,
    Inventory,
    SavedStateError,
    check_saved,
    declaring,
    map_tensors,
    pack_state,
    put_back,
    read_state,
    snapshot_of,
    state_digest,
    state_of,
)

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

    Args:
        method: the method that adapts, around its network.
        estimators: estimators that watch every step, by name.
        recovery: when and how the model goes back; None never does.
        name: of the recipe; by default that of the method.
        preset: name of the published setting that the method has, for `recipe`.
        weights: digest of the source network, which saved states are bound to.
        source: the network as it was given, for `model.source(inputs)`.
    """

    beside_adaptation: tuple[str, ...] = ()  # parts whose state is saved and is no part of the digest

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
        self.input_range = InputRange(method.model.input_spec.kind, known=known_range(method.model))
        self.name = name or METHODS.name_of(type(method))
        self.preset = preset
        self.weights = weights  # digest of the source model
        self._transactions = Transactions()
        self._inventories = Inventory(), Inventory()
        self._single_samples_seen = False

    @property
    def recipe(self) -> dict[str, Any]:
        """Names and options, as plain JSON, from which this object can be built again."""
        return {
            "name": self.name,
            "method": METHODS.name_of(type(self.method)),
            "preset": self.preset,
            "options": options_given(self.method),
            "recovery": RECOVERIES.name_of(type(self.recovery)),
            "recovery_options": options_given(self.recovery),
            "estimators": {name: estimator_given(name, estimator) for name, estimator in self.estimators.items()},
        }

    def __repr__(self) -> str:
        """Return what adapts to what in one line; `print(model.method)` shows the layers.

        >>> from holdfast.models.tiny import tiny_resnet
        >>> from holdfast.model.adapt import adapt
        >>> adapt(tiny_resnet(), "rdumb", estimator="softmax_score")
        AdaptedModel(rdumb (cifar10-c), ResNet, image 3×32×32, 10 classes, periodic, softmax_score)
        """
        return f"{type(self).__name__}({', '.join(filter(None, self._facts().values()))})"

    def _facts(self) -> dict[str, str]:
        """Return what the model is made of, in words."""
        network, recovery = self.method.model, RECOVERIES.name_of(type(self.recovery))
        shape, base = "×".join(map(str, network.input_spec.shape)), options_given(self.method).get("base")
        name = self.name if base is None else f"{self.name} of {base}"
        return {
            "recipe": name if self.preset is None else f"{name} ({self.preset})",
            "network": type(network.module).__name__,
            "inputs": f"{network.input_spec.kind} {shape}",
            "outputs": f"{network.num_classes} classes",
            "recovery": "" if recovery == "never" else recovery,
            "estimators": ", ".join(self.estimators),
        }

    def _repr_html_(self) -> str:
        from holdfast.display import facts

        options = ", ".join(f"{name}={value!r}" for name, value in options_given(self.method).items())
        return facts(type(self).__name__, {**self._facts(), "options": options})

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
        batch = self._checked(inputs, named, learning=True)
        with torch.inference_mode(False), self._transactions.settled():
            return self._begun(batch, learning=True).finished()

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
        batch = self._checked(inputs, named, learning=adapt)
        with torch.inference_mode(False), self._transactions.settled():
            return self._begun(batch, learning=adapt)

    def predict(self, inputs: Tensor | Mapping[str, Tensor] | None = None, **named: Tensor) -> Step:
        """Predict a batch and estimate the accuracy without changing anything."""
        batch = self._checked(inputs, named, learning=False)
        with torch.inference_mode(False), self._transactions.settled():
            return self._begun(batch, learning=False, counted=False).finished()

    def _begun(self, batch: Tensor, *, learning: bool, counted: bool = True) -> Pending:
        """Return a batch that is predicted; the lock is held, and `counted` says whether the prediction is served."""
        inputs = batch.clone() if batch.is_inference() else batch.detach()
        parts = self._parts
        pending = self._pending(parts, inputs, learning=learning, counted=counted)
        self._transactions.begin(pending, *parts.groups)
        return pending

    def _pending(self, parts: Parts, inputs: Tensor, *, learning: bool, counted: bool) -> Pending:
        """Return the step of this kind of model."""
        return Pending(parts, self._transactions, inputs, learning=learning)

    @property
    def _parts(self) -> Parts:
        return Parts(self.method, self.estimators, self.recovery, self.input_range, self._source, self._inventories)

    def _checked(
        self, inputs: Tensor | Mapping[str, Tensor] | None, named: Mapping[str, Tensor], *, learning: bool = False
    ) -> Tensor:
        """Return the one batch among the inputs, or raise if it is none."""
        batch, network = single_input(inputs, named), self.method.model
        check_inputs(batch, network.input_spec, network.input_dtype)
        if learning and len(batch) == 1 and not self._single_samples_seen:
            self._warn_of_single_samples()
        return batch

    def _warn_of_single_samples(self) -> None:
        """Warn once if a batch of one is normalised with its own statistics."""
        self._single_samples_seen = True
        if any(isinstance(layer, NormLayer) and layer.uses_batch for layer in self.method.modules()):
            warnings.warn(
                f"got a batch of one, and {self.name!r} normalises with the statistics of each batch; collect larger "
                "batches, or choose a method that stores statistics, such as 'robust_bn' or 'rotta'",
                SetupWarning,
                stacklevel=4,
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the model inside the block, in whole or not at all."""
        transactions = self._transactions
        with torch.inference_mode(False), transactions.settled():
            savepoints = transactions.savepoints(*self._changeable())
            with transactions.undoing(savepoints):
                yield

    def _changeable(self) -> list[Contents]:
        """Return what anything but a step may change."""
        return [*self._parts.groups]

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
        batch = self._checked(inputs, named)
        with self._transactions.settled(), flags_as_given(self.source_network):
            logits: Tensor = self.source_network(batch)
            return logits.detach()

    def enter_domain(self, domain: str) -> None:
        """Announce the next domain: known in benchmarks only, and used by oracles only."""
        with self._transactions.settled():
            self.recovery.enter_domain(domain)

    def fit_source(self, batches: Iterable[SourceBatch]) -> None:
        """Show the method unlabelled source inputs before the first batch; of (inputs, labels) only inputs are used."""

        def shown() -> Iterator[Tensor]:
            for batch in batches:
                inputs = inputs_alone(batch)
                self._show(inputs)
                yield inputs

        source = shown()
        with self._changing():
            self.method.fit_source(source)
            for _ in itertools.islice(source, SHOWN_BATCHES):
                pass

    def refer_to(self, reference: Reference) -> None:
        """Give the method and the estimators the moments of the source's own data, before the first batch."""
        with self._changing(), torch.no_grad():
            self.method.refer_to(reference)
            for estimator in self.estimators.values():
                estimator.refer_to(reference)

    def fit_holdout(self, batches: Iterable[SourceBatch]) -> None:
        """Show held-out source data, (inputs, labels) or inputs alone, to estimators that need it, never to methods."""
        pairs = [inputs_and_labels(batch) for batch in batches]
        with self._changing(), torch.no_grad():
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
        with self._changing():
            self.method.reset()
            for part in (self.recovery, self.input_range, *self.estimators.values()):
                part.reset_state()

    @overload
    def export(
        self,
        *,
        statistics: Statistics = "batch",
        inputs: Tensor | None = None,
        form: Literal["module"] = "module",
        adapting: bool = False,
        path: None = None,
    ) -> nn.Module: ...
    @overload
    def export(
        self,
        *,
        statistics: Statistics = "batch",
        inputs: Tensor | None = None,
        form: Form,
        adapting: bool = False,
        path: str | Path | None = None,
    ) -> nn.Module | torch.export.ExportedProgram | Path: ...

    def export(
        self,
        *,
        statistics: Statistics = "batch",
        inputs: Tensor | None = None,
        form: Form = "module",
        adapting: bool = False,
        path: str | Path | None = None,
    ) -> nn.Module | torch.export.ExportedProgram | Path:
        """Return the predicting network as a plain module that no longer adapts, after checking its predictions.

        With `statistics="batch"` the module of a method that normalises with batch statistics still does so: a
        prediction depends on the rest of its batch, and a batch of one is predicted badly. With `"frozen"` the
        statistics are fixed, to those of `inputs` where the method stores none.

        `adapting=True`, for the default, exports the step itself: `logits, *state = module(inputs, *state)`, where the
        first state is `module.initial`. `form="torch"` returns a program of `torch.export`, and `form="onnx"` writes a
        file that needs neither PyTorch nor Python and returns its path; both take any batch size, and both are written
        to `path` if there is one. In an ONNX file of an adapting network the state of now is the default of its inputs.
        """
        if inputs is not None:
            self._checked(inputs, {})
        with torch.inference_mode(False), self._transactions.settled():
            if not adapting:
                module = export(self.method, statistics, inputs)
            elif isinstance(self.method, Blend):
                module = self.method.graph()
            else:
                raise ValueError(f"{self.name!r} cannot adapt outside PyTorch, only 'blend' can; export it frozen")
            return in_form(module, form, self.method.model.trial_inputs(PROBE_SAMPLES), path)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed, for `return_to`; small beside the network.

        >>> from holdfast.models.tiny import tiny_resnet
        >>> from holdfast.model.adapt import adapt
        >>> model, batch = adapt(tiny_resnet(), "tent"), torch.rand(8, 3, 32, 32)
        >>> before = model.snapshot(); _ = model(batch); changed = model.digest()
        >>> model.return_to(before); _ = model(batch); model.digest() == changed
        True
        """
        with self._transactions.settled():
            return snapshot_of(self, self.method.changed(), kept=True)

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot of this model exactly: the future is that of the model at that time."""
        with torch.inference_mode(False), torch.no_grad(), self._transactions.settled():
            self._return_to(snapshot)

    def _return_to(self, snapshot: Mapping[str, Any]) -> None:
        self.method.set_moving(snapshot["tensors"])
        put_back(self, {name: self._placed(declared) for name, declared in snapshot["declared"].items()})

    def _placed(self, declared: Mapping[str, Any]) -> dict[str, Any]:
        """Return declared state on the device of the model; an optimiser moves its moments, but not its counts."""
        device = self.method.model.device
        return {
            name: value if name == "optimizer" else map_tensors(lambda tensor: tensor.to(device), value)
            for name, value in declared.items()
        }

    def digest(self) -> str:
        """Return a hex digest of all that adaptation has changed; labels that came back are not part of it."""
        with self._transactions.settled():
            now = state_of(self, self.method.changed(), kept=True)
            adapted = {
                name: declared
                for name, declared in now["declared"].items()
                if name.partition(".")[0] not in self.beside_adaptation
            }
            return state_digest({**now, "declared": adapted})

    def save(self, path: str | Path, *, note: Any = None) -> None:
        """Write all that adaptation has changed to one safetensors file with a JSON header, a note and a checksum."""
        write_whole(Path(path), self.saved(note=note), durably=True)

    def saved(self, *, note: Any = None) -> bytes:
        """Return the content of the file that `save` writes."""
        header = {"recipe": self.recipe, "weights": self.weights, "note": note}
        with self._transactions.settled():
            return pack_state(state_of(self, self._saved_tensors(), kept=True), header)

    def _saved_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that can change, without constants; frozen weights stay in the caller's own file."""
        present = self.method.state_dict()
        return {name: tensor for name, tensor in self.method.tensors().items() if name in present}

    def load(self, path: str | Path) -> Any:
        """Load what `save` wrote, for the same source model and recipe, and return its note; else change nothing."""
        state, header = read_state(Path(path))
        check_header(path, header, recipe=self.recipe, weights=self.weights)
        try:
            with self._changing():
                self._load(state)
        except (ValueError, RuntimeError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise SavedStateError(f"{path} does not fit this model ({error}); use another copy of it") from error
        return header["note"]

    def _load(self, state: Mapping[str, Any]) -> None:
        """Take a saved state, or raise when it does not fit, contradicts itself, or makes predicting impossible."""
        parts = dict(declaring(self))
        expected = {
            "tensors": self._saved_tensors(),
            "declared": {name: part.declared() for name, part in parts.items()},
        }
        check_saved(state, expected, self.method.model.dtype)
        could = self._parts.can_predict()
        self._return_to(state)
        for part in parts.values():
            part.check_state()
        if could and not self._parts.can_predict():
            raise ValueError("the model cannot predict with it")

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        """Return torch's state dict without the source, which is the caller's own file and never changes."""
        state = super().state_dict(*arguments, **options)
        prefix = options.get("prefix", "") + "_source."
        for name in [name for name in state if name.startswith(prefix)]:
            del state[name]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state dict; declared tensors go to the device of the model, as all others do."""
        moved = OrderedDict(
            (name, self._placed(value) if name.endswith("_extra_state") else value)
            for name, value in state_dict.items()
        )
        if self._source is not None:  # it stays as it is
            moved.update((f"_source.{name}", value) for name, value in self._source.state_dict().items())
        vars(moved).update(_metadata=getattr(state_dict, "_metadata", None))  # torch's versions of modules
        with self._transactions.settled():
            return super().load_state_dict(moved, strict, assign)

    def train(self, mode: bool = True) -> AdaptedModel:
        """Set the flag and nothing else: the method alone decides in which mode its layers run."""
        self.training = mode
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> AdaptedModel:
        with self._transactions.settled():
            self._transactions.forget()
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        with self._transactions.settled():  # nothing is pending in a pickle
            return vars(self).copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> AdaptedModel:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        with self._transactions.settled():  # no other thread is in the middle of a step
            for key, empty in copies_of_empty(self).items():
                memo.setdefault(key, empty)
            vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied
