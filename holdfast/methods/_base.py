"""Method: predicts, then adapts. A subclass writes its loss; the base class handles state, updates and safety."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.anchor import Reference
from holdfast.blocks.comparing import differing
from holdfast.blocks.norm import BatchStatistics, pause, paused
from holdfast.blocks.teacher import MovingAverage
from holdfast.blocks.wrapping import affine_parameters, contiguous_group_norm, has_batch_norm, replace_batch_norm
from holdfast.models.classifier import Classifier
from holdfast.models.engines import EngineName
from holdfast.options.ranges import Momentum, NotNegative
from holdfast.records import Refused, Update
from holdfast.registry import Registry
from holdfast.restorable import Pull
from holdfast.state import Stateful, copied, put_back, snapshot_of

__all__ = ["METHODS", "Method", "PredictOnly", "preset_for"]


class Method(Stateful):
    """One published way to adapt; a subclass writes `loss` and, if its paper requires it, `prepare` or `predict`."""

    citation: ClassVar[str] = ""
    passes: ClassVar[str] = "1 forward, 1 backward"  # of the network, per sample
    keeps: ClassVar[str] = "source values of the trained parameters"  # besides the network
    use_when: ClassVar[str] = ""
    fails_when: ClassVar[str] = ""
    meanings: ClassVar[Mapping[str, str]] = {  # of the options of this class
        "optimizer": "sgd or adam",
        "lr": "learning rate",
        "momentum": "of SGD",
        "nesterov": "whether SGD looks ahead",
        "betas": "of Adam: decay of the first and second moments",
        "weight_decay": "pull of the trained weights towards zero",
        "seed": "of all random draws",
    }
    predicts: Literal["before", "after"] = "before"  # the update on the same batch
    needs_source: ClassVar[bool] = False  # requires unlabelled source inputs before the first batch
    needs_batch_norm: ClassVar[bool] = False
    needs_norm: ClassVar[bool] = True  # requires normalisation layers of any kind
    needs_head: ClassVar[bool] = False  # requires a last linear layer, whose inputs are the features
    uses_reference: ClassVar[bool] = False  # follows inputs from the moments of the source's own data, if it is told
    keep_momentum: bool = False  # whether a reset leaves the optimiser as it is
    keeps_recovery: ClassVar[bool] = False  # of the recipe that it is put around
    learns: bool = True  # False: no batch changes it
    predicts_jointly: bool = False  # a prediction depends on its batch by more than normalisation
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # published options by data set
    batches: int

    def __init__(
        self,
        model: Classifier,
        *,
        optimizer: Literal["sgd", "adam"] = "sgd",
        lr: NotNegative = 1e-3,
        momentum: Momentum = 0.9,
        nesterov: bool = False,
        betas: tuple[Momentum, Momentum] = (0.9, 0.999),
        weight_decay: NotNegative = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.optimizer, self.lr, self.momentum, self.nesterov = optimizer, lr, momentum, nesterov
        self.betas, self.weight_decay, self.seed = (betas[0], betas[1]), weight_decay, seed
        if self.needs_batch_norm and not has_batch_norm(model):
            raise ValueError(
                f"this method requires BatchNorm layers, and the model has none (normalisation: "
                f"{model.normalisation}); choose a method for any network, such as 'tent' or 'eta'"
            )
        if self.needs_head and model.head is None:
            raise ValueError("no last linear layer was found; pass its name as head='...', or choose 'blend'")
        # Always in evaluation mode: dropout and stochastic depth would add noise to what is adapted.
        self.model = model.eval().requires_grad_(False)
        self.trained = self.prepare(model)
        if any(parameter.dtype == torch.float16 for parameter in self.trained):
            raise ValueError(
                "float16 weights cannot be trained, their gradients underflow; adapt model.float() under "
                "torch.autocast, or choose a method that trains no weights, such as 'batch_norm' or 'neo'"
            )
        for parameter in self.trained:
            parameter.requires_grad_(True)
        if self.trained:
            contiguous_group_norm(self)
        self._optimizer = self._make_optimizer() if self.trained else None
        self._origin = {name: tensor.detach().clone() for name, tensor in self.moving().items()}
        self._paused, self._lr_scale = False, 1.0
        self._pull: Pull | None = None  # by a recovery, for the next updates
        self.samples_backwarded = 0
        self.add_state("batches", 0)

    @classmethod
    def requires_source(cls, _options: Mapping[str, Any], /) -> bool:
        """Return whether it requires unlabelled source inputs before the first batch, with these options."""
        return cls.needs_source

    # What a subclass writes -------------------------------------------------------------------------------

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Replace the layers that the method changes and return the parameters to train."""
        replace_batch_norm(model, BatchStatistics)
        return self.affine_parameters_of(model)

    def affine_parameters_of(self, model: Classifier) -> list[nn.Parameter]:
        """Return the affine parameters of the normalisation layers; without any there is nothing to adapt."""
        parameters = affine_parameters(model)
        if not parameters:
            raise ValueError("the model has no normalisation layer with affine parameters to adapt; choose 'source'")
        return parameters

    def learning_rates(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return the trained parameters in groups, each with its learning rate."""
        return [(self.trained, self.lr)]

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logits of a batch."""
        logits: Tensor = self.model(inputs)
        return logits

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor | None:
        """Return the loss to minimise on this batch, or None when no sample is suitable."""
        return None

    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Compute what the method needs from unlabelled source inputs, once, before the first batch."""

    def refer_to(self, reference: Reference) -> None:
        """Take the moments of the source's own data, once, before the first batch."""

    @property
    def referred(self) -> bool:
        """Whether it knows the moments of the source's own data, or has no use for them."""
        return not self.uses_reference

    def run_source_by(self, engine: EngineName) -> None:
        """Run the frozen source, where a method predicts with it too, by a faster engine from now on."""
        raise ValueError(
            f"{METHODS.name_of(type(self))!r} predicts with no frozen source that source_engine={engine!r} could run; "
            "leave it out, or choose 'blend' or holdfast.guard"
        )

    def gauges(self) -> Mapping[str, float]:
        """Return further numbers to record for each batch, by name."""
        return {}

    def prepare_offline(self, batches_per_epoch: int) -> None:
        """Learn before the first epoch of an offline set how many batches an epoch has, for schedules by epoch."""

    def begin_epoch(self, batches: Iterable[Tensor], order: Tensor) -> None:
        """See all inputs of an offline set before an epoch over them, which comes in the order given, (n,)."""

    @property
    def recovering(self) -> Method:
        """The method that a recovery restores: itself, or the one that it is put around."""
        return self

    @property
    def predictor(self) -> Classifier:
        """The network that predicts: the teacher, if there is one."""
        return self.model

    def predictor_head(self) -> AbstractContextManager[None]:
        """While estimators run, give the predicting network the head that made the prediction; most have only one."""
        return nullcontext()

    # What a subclass inherits -----------------------------------------------------------------------------

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Adapt to one batch; without `logits` (and their graph) it is predicted again."""
        self.batches += 1
        if not self.trained:
            return Update()
        with torch.enable_grad():
            loss = self.loss(inputs, self.predict(inputs) if logits is None else logits)
        return Update() if loss is None else self.update(loss, len(inputs))

    def update(self, loss: Tensor, samples: int) -> Update:
        """Take one optimiser step, unless the loss or a gradient is not finite."""
        if self._optimizer is None or self.paused:
            return Update()
        self._optimizer.zero_grad(set_to_none=True)
        self.samples_backwarded += samples
        loss.backward()
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients)) if gradients else loss.detach()
        total = loss.detach() + norms.sum()
        value, size = torch.stack([loss.detach().to(total.dtype), total]).tolist()  # the host waits once
        if not math.isfinite(size):
            return Update(events=(Refused("non-finite loss or gradient"),))
        if self._pull is None:
            self._optimizer.step()
        else:
            self._step_pulled(self._optimizer, self._pull)
        return Update(loss=value)

    def pull_towards(self, pull: Pull | None) -> None:
        """Add a penalty to the gradient of the next updates; the parameters keep the gradient of the loss alone."""
        self._pull = pull

    @torch.no_grad()
    def _step_pulled(self, optimizer: torch.optim.Optimizer, pull: Pull) -> None:
        """Take a step on the loss and the penalty of a pull, whose gradient is known; keep that of the loss alone."""
        gradients = [weight.grad for weight in self.trained]
        for weight, own, strength, centre in zip(self.trained, gradients, pull.strengths, pull.centres, strict=True):
            towards = 2 * strength * (weight - centre)
            weight.grad = towards if own is None else own + towards
        optimizer.step()
        for weight, own in zip(self.trained, gradients, strict=True):
            weight.grad = own

    def reset(self) -> None:
        """Return to the source exactly: weights, statistics, optimiser and declared state."""
        self.reset_weights()
        self.reset_state()

    def reset_weights(self) -> None:
        """Return weights, statistics and, unless it keeps its momentum, the optimiser to the source; no other state."""
        kept = dict(self._optimizer.state) if self._optimizer and self.keep_momentum else {}
        self.set_moving({})
        if self._optimizer:
            self._optimizer.state.update(kept)

    @torch.no_grad()
    def reset_after(self, kept: int) -> None:
        """Reset, except that the first `kept` trained parameters, and a teacher's, keep their values."""
        students = self.trained[:kept]
        teachers = (part for part in self.modules() if isinstance(part, MovingAverage))
        surviving = [*students, *(weight for teacher in teachers for weight in teacher.following(students))]
        values, batches = [weight.clone() for weight in surviving], self.batches
        self.reset()
        for weight, value in zip(surviving, values, strict=True):
            weight.copy_(value)
        self.batches = batches  # random draws do not repeat

    def move_anchor(self, kept: int) -> None:
        """Keep all weights, and average them from now on with the first `kept` of them and the source of the rest."""
        raise ValueError(
            f"{METHODS.name_of(type(self))!r} averages its weights with no anchor that could be reset; choose "
            "resets='weights', or the method 'roid'"
        )

    @torch.no_grad()
    def source_logits(self, inputs: Tensor) -> Tensor:
        """Return the logits of the predicting network with its source weights; nothing moves."""
        network, now = self.predictor, self.moving()
        origin = {id(now[name]): source for name, source in self._origin.items()}
        named = itertools.chain(network.named_parameters(), network.named_buffers())
        source = {name: origin[id(tensor)] for name, tensor in named if id(tensor) in origin}
        with paused(network):
            logits: Tensor = functional_call(network, source, inputs)
        return logits

    def network_logits(self, logits: Tensor) -> Tensor:
        """Return the logits of the network behind the newest prediction, without corrections of the method."""
        return logits

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that adaptation has changed: weights, statistics, optimiser and declared state."""
        return snapshot_of(self, self.changed(), kept=False)

    def return_to(self, snapshot: Mapping[str, Any]) -> None:
        """Return to a snapshot exactly; what fitting source data has left stays as it is now."""
        self.set_moving(snapshot["tensors"])
        put_back(self, snapshot["declared"])

    @torch.no_grad()
    def set_moving(self, values: Mapping[str, Tensor]) -> None:
        """Set every moving tensor to the value given or else to its source value, and clear the optimiser."""
        moving = self.moving()
        for name, source in self._origin.items():
            moving[name].copy_(values.get(name, source))
        if self._optimizer is not None:
            self._optimizer.state.clear()
            self._optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def restore(self, mask: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        """Return single weights to the source, where `mask(weight, last_gradient)` is true."""
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.where(mask(parameter, parameter.grad), self._origin[name], parameter))

    def export(self) -> nn.Module:
        """Return the predicting network as a plain module that no longer adapts."""
        exported = copy.deepcopy(self.predictor.module).eval().requires_grad_(False)
        pause(exported)
        return exported

    def source_weights(self) -> list[Tensor]:
        """Return the source values of the trained parameters, in their order."""
        names = {id(parameter): name for name, parameter in self.named_parameters()}
        return [self._origin[names[id(parameter)]] for parameter in self.trained]

    def moving(self) -> dict[str, Tensor]:
        """Return every tensor that adaptation may change, by name: trained parameters, teachers and all buffers."""
        chosen_ids = {
            id(parameter)
            for part in self.modules()
            if isinstance(part, (Method, MovingAverage))
            for parameter in (part.trained if isinstance(part, Method) else part.moving())
        }
        chosen = {name: tensor for name, tensor in self.named_parameters() if id(tensor) in chosen_ids}
        return {**chosen, **dict(self.named_buffers())}

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor that adaptation may change and that has a source value, by name."""
        moving = self.moving()
        return {name: moving[name] for name in self._origin}

    def changed(self) -> dict[str, Tensor]:
        """Return those that differ from their source values."""
        now = self.tensors()
        return {name: now[name] for name in differing(now, self._origin)}

    @property
    def origin(self) -> Mapping[str, Tensor]:
        """The source values of every tensor in `moving`, by the same names."""
        return self._origin

    @property
    def paused(self) -> bool:
        """Whether it predicts without changing weights, statistics or declared state."""
        return self._paused

    def pause(self, pausing: bool = True) -> None:
        """Predict without changing anything from now on, or learn again."""
        if pausing != self._paused:
            self._paused = pausing
            pause(self, pausing)

    @property
    def lr_scale(self) -> float:
        """A factor on all learning rates; a benchmark can provoke a collapse with it."""
        return self._lr_scale

    def scale_rates(self, scale: float) -> None:
        """Multiply all learning rates by a factor from now on."""
        if self._optimizer is not None and scale != self._lr_scale:
            for group, (_, lr) in zip(self._optimizer.param_groups, self.learning_rates(), strict=True):
                group["lr"] = scale * lr
        self._lr_scale = scale

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The optimiser's parameter groups with their current learning rates; empty if nothing is trained."""
        return [] if self._optimizer is None else self._optimizer.param_groups

    @property
    def samples_forwarded(self) -> int:
        """Number of samples that have passed through any of its networks."""
        return sum(part.samples_forwarded for part in self.modules() if isinstance(part, Classifier))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Method:
        super()._apply(fn, recurse)
        self._origin = {name: fn(tensor) for name, tensor in self._origin.items()}
        if self._optimizer is not None:
            self._optimizer.load_state_dict(self._optimizer.state_dict())  # moves the moments to their parameters
        return self

    def _make_optimizer(self) -> torch.optim.Optimizer | None:
        groups = [{"params": parameters, "lr": lr} for parameters, lr in self.learning_rates()]
        if self.optimizer == "adam":
            return torch.optim.Adam(groups, self.lr, self.betas, weight_decay=self.weight_decay, foreach=True)
        decay, nesterov = self.weight_decay, self.nesterov
        return torch.optim.SGD(groups, self.lr, self.momentum, weight_decay=decay, nesterov=nesterov, foreach=True)

    def declared(self) -> dict[str, Any]:
        """Return the defaults of the declared attributes, and of the moments of the optimiser."""
        return super().declared() if self._optimizer is None else {**super().declared(), "optimizer": {}}

    def get_extra_state(self) -> dict[str, Any]:
        """Return the declared attributes and the moments of the optimiser."""
        state = super().get_extra_state()
        if self._optimizer is not None:
            known = copied(self._optimizer.state_dict()["state"])
            # Of every parameter, also of those without: what is missing in a file is then a fault of the file.
            state["optimizer"] = {index: known.get(index, {}) for index in range(len(_parameters(self._optimizer)))}
        return state

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Set the declared attributes and the moments of the optimiser."""
        super().set_extra_state(state)
        if self._optimizer is not None:
            _check_moments(state["optimizer"], self._optimizer)
            moments = {index: copy.deepcopy(own) for index, own in state["optimizer"].items() if own}
            groups = self._optimizer.state_dict()["param_groups"]
            self._optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _step_dtype() -> torch.dtype:
    """Return the type in which torch's optimisers count their steps."""
    return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32


def _check_moments(moments: Mapping[int, Mapping[str, Any]], optimizer: torch.optim.Optimizer) -> None:
    """Raise unless these are moments of the optimiser: for each parameter in order, of its shape."""
    expected = {"step", "exp_avg", "exp_avg_sq"} if isinstance(optimizer, torch.optim.Adam) else {"momentum_buffer"}
    parameters, counting = _parameters(optimizer), _step_dtype()
    if list(moments) != list(range(len(parameters))):
        raise ValueError(f"the optimiser has {len(parameters)} parameters, and moments of {list(moments)}")
    for index, own in moments.items():
        if own and set(own) != expected:
            raise ValueError(f"the optimiser has no such moments: {sorted(own)} of parameter {index}")
        parameter = parameters[index]
        for name, tensor in own.items():
            if tensor is None:  # SGD without momentum, or before its first step
                continue
            shape, dtype = (torch.Size(), counting) if name == "step" else (parameter.shape, parameter.dtype)
            if tensor.shape != shape or tensor.dtype != dtype:
                raise ValueError(f"{name!r} of parameter {index} is {tensor.dtype} of shape {tuple(tensor.shape)}")


class PredictOnly(nn.Module):
    """A paused copy of a method, to export methods that predict with more than one pass of a network."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = copy.deepcopy(method).requires_grad_(False)
        self.method.pause()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of a batch."""
        return self.method.predict(inputs)


METHODS: Registry[type[Method]] = Registry("method", "methods")


def preset_for(method: type[Method], model: Classifier) -> str | None:
    """Return the name of the published setting closest to a model, by number of classes, then normalisation."""
    data = ("cifar10-c", "cifar100-c", "imagenet-c")[
        # Halfway between 10, 100 and 1000 classes on a logarithmic scale.
        (model.num_classes > math.sqrt(1e3)) + (model.num_classes > math.sqrt(1e5))
    ]
    candidates = (f"{data}-{model.normalisation}", data)
    return next((name for name in candidates if name in method.presets), None)
