"""Record the outputs of parts of a network, change them, and return them in later passes without computing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from holdfast.models.classifier import Classifier
from holdfast.models.stages import is_inside


@dataclass
class Recorded:
    """Outputs of named parts, and the input of the head, from the last pass over certain inputs."""

    outputs: dict[str, Tensor] = field(default_factory=dict)
    features: Tensor | None = None


@contextmanager
def recording(model: Classifier, inputs: Tensor, names: Collection[str]) -> Iterator[Recorded]:
    """Record the outputs of named parts whenever the model is called with exactly these inputs, not with views of them.

    Outputs are not copied: a layer that changes another layer's output in place also changes the record.

    >>> import torch
    >>> network = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.Linear(4, 2)), example=torch.zeros(1, 4))
    >>> inputs = torch.ones(3, 4)
    >>> with recording(network, inputs, ["1"]) as recorded:
    ...     logits, other = network(inputs), network(2 * inputs)
    >>> recorded.outputs["1"].equal(network.module[1](inputs)), recorded.features.equal(recorded.outputs["1"])
    (True, True)
    """
    recorder = _Recorder(inputs)
    with ExitStack() as hooks:
        hooks.callback(model.register_forward_pre_hook(recorder.begin).remove)
        hooks.callback(model.register_forward_hook(recorder.end).remove)
        for name in names:
            hooks.callback(model.module.get_submodule(name).register_forward_hook(recorder.keep(name)).remove)
        if model.head is not None:
            hooks.callback(model.head.register_forward_pre_hook(recorder.keep_features).remove)
        yield recorder.recorded


class _Recorder:
    """The hooks that fill a record while the model runs on certain inputs."""

    def __init__(self, inputs: Tensor) -> None:
        self.inputs, self.recorded, self.listening = inputs, Recorded(), False

    def begin(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        self.listening = args[0] is self.inputs
        if self.listening:
            self.recorded.outputs.clear()
            self.recorded.features = None

    def end(self, *_: Any) -> None:
        self.listening = False

    def keep(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def note(_: nn.Module, _args: Any, output: Any) -> None:
            if self.listening and isinstance(output, Tensor):
                self.recorded.outputs[name] = output.detach()

        return note

    def keep_features(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        if self.listening:
            self.recorded.features = args[0].detach().flatten(1)


@contextmanager
def changing(module: nn.Module, changes: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Pass the outputs of named parts through functions inside the `with` block; of a tuple, the first entry.

    >>> import torch
    >>> network = nn.Sequential(nn.Identity(), nn.Flatten())
    >>> with changing(network, {"0": lambda output: output + 1}):
    ...     network(torch.zeros(1, 2))
    tensor([[1., 1.]])
    """

    def applied(change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Any, Any], Any]:
        def apply(_: nn.Module, _args: Any, output: Any) -> Any:
            return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

        return apply

    with ExitStack() as hooks:
        for name, change in changes.items():
            hooks.callback(module.get_submodule(name).register_forward_hook(applied(change)).remove)
        yield


@contextmanager
def reusing(module: nn.Module, outputs: Mapping[str, Tensor]) -> Iterator[None]:
    """Make the named parts of a network return the given outputs inside the `with` block."""
    with ExitStack() as patches:
        for name, output in outputs.items():
            patches.enter_context(patched(module.get_submodule(name), lambda *_, known=output, **__: known))
        yield


@contextmanager
def patched(part: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace the computation of a module inside the `with` block; its hooks still run."""
    before = vars(part).get("forward")
    vars(part)["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del vars(part)["forward"]
        else:
            vars(part)["forward"] = before


def finished_parts(module: nn.Module, inputs: Tensor, point: str) -> tuple[str, ...]:
    """Return the largest parts that have finished when `point` has, which a later pass can skip.

    Parts that run twice, or do not return a tensor with one row per input, are excluded.

    >>> import torch
    >>> network = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2), nn.Linear(2, 2))
    >>> finished_parts(network, torch.zeros(1, 2), "1")
    ('0', '1')
    """
    calls: Counter[str] = Counter()
    finished: dict[str, bool] = {}  # whether its output can be recorded

    def begin(name: str) -> Callable[[nn.Module, Any], None]:
        return lambda *_: calls.update([name])

    def end(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def note(_: nn.Module, _args: Any, output: Any) -> None:
            if point not in finished:
                finished[name] = isinstance(output, Tensor) and output.dim() > 0 and len(output) == len(inputs)

        return note

    with ExitStack() as hooks:
        for name, part in module.named_modules():
            hooks.callback(part.register_forward_pre_hook(begin(name)).remove)
            hooks.callback(part.register_forward_hook(end(name)).remove)
        module(inputs)
    kept = [name for name, whole in finished.items() if whole and calls[name] == 1]
    if point not in kept:
        return ()
    largest = [name for name in kept if not any(name != other and is_inside(name, other) for other in kept)]
    return tuple(largest)
