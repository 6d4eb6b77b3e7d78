"""AdaptedModel: predict -> estimate -> adapt -> recover. What the benchmark measures is what users deploy."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.estimators import ESTIMATORS, Estimator, Observation
from holdfast.methods import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import recording
from holdfast.records import Estimate, Step, Update
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.recovery.never import Never
from holdfast.registry import options_of
from holdfast.state import SavedStateError, read_state, write_state

__all__ = ["AdaptedModel", "check_estimator_name"]


class AdaptedModel(nn.Module):
    """A classifier that adapts itself to the inputs it is asked about, and is called like any other module."""

    def __init__(
        self,
        method: Method,
        *,
        estimators: Mapping[str, Estimator] | None = None,
        recovery: Recovery | None = None,
        name: str | None = None,
        preset: str | None = None,
        weights: str = "",
    ) -> None:
        super().__init__()
        self.method = method
        self.estimators = dict(estimators or {})
        for watching in self.estimators:
            check_estimator_name(watching)
        self._watching = nn.ModuleDict(self.estimators)  # so that their state is saved and moved with the rest
        self.recovery = recovery or Never()
        self.name = name or METHODS.name_of(type(method))
        self.preset = preset
        self.weights = weights  # digest of the source model

    @property
    def recipe(self) -> dict[str, Any]:
        """Names and options, as plain JSON: what it takes to build this object again."""
        return {
            "name": self.name,
            "method": METHODS.name_of(type(self.method)),
            "preset": self.preset,
            "options": _options(self.method),
            "recovery": RECOVERIES.name_of(type(self.recovery)),
            "recovery_options": _options(self.recovery),
            "estimators": {name: _watching(name, estimator) for name, estimator in self.estimators.items()},
        }

    def forward(self, inputs: Tensor) -> Tensor:
        """Answer a batch and adapt to it; return the logits."""
        return self.step(inputs).logits

    def step(self, inputs: Tensor) -> Step:
        """Answer a batch, estimate the accuracy, adapt, recover where it is due, and tell all of it."""
        # The caller may be in inference mode, whose tensors cannot take part in a backward pass.
        with torch.inference_mode(False), torch.set_grad_enabled(bool(self.method.trained)):
            if inputs.is_inference():
                inputs = inputs.clone()
            return self._step(inputs.detach())

    def predict(self, inputs: Tensor) -> Step:
        """Answer a batch, estimate the accuracy, and learn nothing: what `step` does where nothing may change."""
        with torch.inference_mode(False), torch.no_grad():
            return self._step(inputs.detach(), learning=False)

    def _step(self, inputs: Tensor, *, learning: bool = True) -> Step:
        forwarded, backwarded = self._samples_forwarded(), self.method.samples_backwarded
        recovered = self.recovery.begin(self.method) if learning else None
        inputs, bad_samples = _finite(inputs)
        self.method.paused = bad_samples > 0 or not learning
        logits, estimates = self._predict(inputs)
        answer = logits.detach()
        if not learning:
            update = Update()
        elif bad_samples:
            update = Update(skipped=f"non-finite values in {bad_samples} of {len(inputs)} inputs")
        elif not torch.isfinite(answer).all():
            update = Update(skipped="non-finite logits")
        else:
            update = self.method.adapt(inputs, logits)
        step = Step(
            answer,
            update.loss,
            estimates,
            recovered,
            update.skipped,
            (self._samples_forwarded() - forwarded) / len(inputs),
            (self.method.samples_backwarded - backwarded) / len(inputs),
            self.method.gauges(),
        )
        reason = self.recovery.recover(self.method, step) if learning else None
        return step if reason is None else replace(step, recovered=reason)

    def _predict(self, inputs: Tensor) -> tuple[Tensor, dict[str, Estimate]]:
        """Return the answer, and what the estimators make of it while the network is still the one that gave it."""
        if not self.estimators:
            return self.method.predict(inputs), {}
        network = self.method.predictor
        wanted = {name for estimator in self.estimators.values() for name in estimator.replays(network)}
        with recording(network, inputs, wanted) as recorded:
            logits = self.method.predict(inputs)
        if not torch.isfinite(logits).all():  # nothing to learn about, for an estimator's memory neither
            return logits, dict.fromkeys(self.estimators, Estimate(math.nan, unknown="non-finite logits"))
        now = self.method.moving()
        origin = {id(now[name]): tensor for name, tensor in self.method.origin.items()}
        named = itertools.chain(network.named_parameters(), network.named_buffers())
        moving = {name: tensor for name, tensor in named if id(tensor) in origin}
        seen = Observation(
            inputs,
            logits.detach(),
            network,
            recorded=recorded,
            moving=moving,
            origin={name: origin[id(tensor)] for name, tensor in moving.items()},
        )
        with torch.no_grad(), self.method.predictor_head():
            return logits, {name: estimator.estimate(seen) for name, estimator in self.estimators.items()}

    def _samples_forwarded(self) -> int:
        return sum(part.samples_forwarded for part in self.modules() if isinstance(part, Classifier))

    def enter_domain(self, domain: str) -> None:
        """Say which domain comes next: known to benchmarks only, and of use to an oracle only."""
        self.recovery.enter_domain(domain)

    def fit_source(self, batches: Iterable[Tensor | Sequence[Tensor]]) -> None:
        """Show the method unlabelled source inputs before the first batch; of (inputs, labels) only inputs are used."""
        with torch.inference_mode(False):
            self.method.fit_source(batch if isinstance(batch, Tensor) else batch[0] for batch in batches)

    def fit_holdout(self, batches: Iterable[Tensor | Sequence[Tensor]]) -> None:
        """Show held-out source data, (inputs, labels) or inputs alone, to estimators that need it, and to no method."""
        pairs = [(batch, None) if isinstance(batch, Tensor) else (batch[0], batch[1]) for batch in batches]
        with torch.inference_mode(False), torch.no_grad():
            for name, estimator in self.estimators.items():
                if estimator.needs == "labels" and any(labels is None for _, labels in pairs):
                    raise ValueError(
                        f"{name!r} needs the labels of held-out source data: pass holdout=[(inputs, labels), …]"
                    )
                if estimator.needs != "nothing":
                    estimator.fit(pairs, self.method.predictor)

    def reset(self) -> None:
        """Go back to the state at construction: the future is that of a new object."""
        self.method.reset()
        for part in (self.recovery, *self.estimators.values()):
            part.reset_state()

    def export(self) -> nn.Module:
        """Return the answering network as a plain frozen module: no adaptation, no hooks, the same outputs."""
        return self.method.export()

    def save(self, path: str | Path, *, note: Any = None) -> None:
        """Write all that adaptation has changed to one safetensors file, JSON header, note and checksum included."""
        header = {"recipe": self.recipe, "weights": self.weights, "note": note}
        write_state(Path(path), self._moving_state(), header)

    def load(self, path: str | Path) -> Any:
        """Take back what `save` wrote, for the same source model and recipe, and return its note."""
        state, header = read_state(Path(path))
        if header["weights"] != self.weights:
            raise SavedStateError(
                f"{path} belongs to a model with other weights ({header['weights'][:8]}, here {self.weights[:8]}); "
                "adapt the model it was saved from and load it there"
            )
        if header["recipe"] != self.recipe:
            here, there = self.recipe, header["recipe"]
            fields = [key for key in sorted({*here, *there}) if here.get(key) != there.get(key)]
            told = "; ".join(f"{key} is {there.get(key)!r} there and {here.get(key)!r} here" for key in fields)
            raise SavedStateError(f"{path} was saved by another recipe: {told}; adapt with the same options")
        self.load_state_dict({**self.state_dict(), **state})
        return header["note"]

    def _moving_state(self) -> dict[str, Any]:
        """The part of `state_dict` that can change: frozen weights stay with the caller's own file."""
        moving = {f"method.{name}" for name in self.method.moving()}
        return {
            name: value for name, value in self.state_dict().items() if name in moving or name.endswith("_extra_state")
        }

    def train(self, mode: bool = True) -> AdaptedModel:
        """Set the flag and nothing else: the method alone decides in which mode its layers run."""
        self.training = mode
        return self


def _finite(inputs: Tensor) -> tuple[Tensor, int]:
    """Return inputs with non-finite values set to zero, and how many samples had one."""
    # One sum instead of one test per value: it is finite for all sane inputs, and a sane batch costs no more.
    if torch.isfinite(inputs.sum()):
        return inputs, 0
    bad = int((~torch.isfinite(inputs)).flatten(1).any(1).sum())
    return inputs.nan_to_num(0.0, 0.0, 0.0), bad


def check_estimator_name(name: str) -> None:
    """Raise for a name that torch cannot keep an estimator's state under."""
    if not name or "." in name or hasattr(nn.ModuleDict(), name):
        better = name.replace(".", "_") if "." in name else f"{name}_estimate"
        raise ValueError(f"{name!r} cannot be the name of an estimator; choose one without full stops, e.g. {better!r}")


def _watching(name: str, estimator: Estimator) -> dict[str, Any]:
    """Return the options of an estimator, and its own name where it goes by another."""
    kind = ESTIMATORS.name_of(type(estimator))
    return {**({} if name == kind else {"name": kind}), **_options(estimator)}


def _options(part: object) -> dict[str, Any]:
    """Return what a part was built with: every option is kept under its own name."""
    plain = json.dumps({name: getattr(part, name) for name in options_of(type(part))})
    return dict(json.loads(plain))
