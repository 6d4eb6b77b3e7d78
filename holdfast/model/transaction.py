"""A step as a transaction: the state before it is kept, and put back when the step fails."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.blocks.teacher import MovingAverage
from holdfast.state import Stateful

__all__ = ["Savepoint", "Transactions"]


class Copies:
    """Copies of tensors that are written in place; their memory is used again, and an unchanged buffer is not copied.

    >>> weight = torch.ones(2)
    >>> copies = Copies(); kept = copies.take([weight], changed_only=False)
    >>> _ = weight.zero_(); kept[0][1]
    tensor([1., 1.])
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], int, Tensor]] = {}

    @torch.no_grad()
    def take(self, tensors: Iterable[Tensor], *, changed_only: bool) -> list[tuple[Tensor, Tensor]]:
        """Return each tensor with a copy of its values."""
        pairs, stale = [], []
        for tensor in tensors:
            reference, version, copied = self._known.get(id(tensor), (None, -1, None))
            if reference is None or reference() is not tensor or copied is None:  # an id is used again
                copied = tensor.detach().clone()
                reference = weakref.ref(tensor, partial(self._forget, id(tensor)))
            elif not (changed_only and version == tensor._version):
                stale.append((copied, tensor))
            self._known[id(tensor)] = (reference, tensor._version, copied)
            pairs.append((tensor, copied))
        if stale:
            targets, sources = zip(*stale, strict=True)
            torch._foreach_copy_(targets, sources)
        return pairs

    def _forget(self, key: int, _: object) -> None:
        self._known.pop(key, None)


class Savepoint:
    """The state of modules at one moment: attributes, buffers, declared state, optimisers and trained parameters.

    Gradients are not part of it: they are dropped when the state is put back. The attributes of modules that are not
    `Stateful`, such as the layers of a network, are kept by reference: what a layer appends to a list stays there.
    """

    def __init__(self, modules: Sequence[nn.Module], copies: Copies | None = None) -> None:
        copies = Copies() if copies is None else copies
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._containers: list[tuple[Any, Any]] = []
        self._overwritten: list[tuple[Stateful, int]] = []
        self._parameters: list[nn.Parameter] = []
        buffers: list[Tensor] = []
        written: list[Tensor] = []  # teachers and the moments of optimisers
        for module in modules:
            attributes = vars(module)
            self._attributes.append((attributes, attributes.copy()))
            own = attributes["_parameters"]
            self._parameters += [weight for weight in own.values() if weight is not None and weight.requires_grad]
            own = attributes["_buffers"]
            if own:
                self._containers.append((own, own.copy()))
                # Those of our own modules that are not saved are constants, and may be large: held-out source data.
                constant = attributes["_non_persistent_buffers_set"] if isinstance(module, Stateful) else ()
                buffers += [tensor for name, tensor in own.items() if tensor is not None and name not in constant]
            if isinstance(module, Stateful):
                self._overwritten.append((module, module.remember_rows()))
                for name in module.state_defaults:
                    self._keep(attributes[name])
                for value in attributes.values():
                    if isinstance(value, torch.optim.Optimizer):
                        written += self._keep_optimizer(value)
            elif isinstance(module, MovingAverage):
                written += module.moving()
        self._tensors = copies.take([*self._parameters, *written], changed_only=False)
        self._tensors += copies.take(buffers, changed_only=True)

    def _keep(self, value: Any) -> None:
        if isinstance(value, (list, dict)):
            self._containers.append((value, value.copy()))
            for item in value if isinstance(value, list) else value.values():
                self._keep(item)

    def _keep_optimizer(self, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        # Loading a state gives an optimiser new containers: both the old ones and their content are kept.
        self._attributes.append((vars(optimizer), vars(optimizer).copy()))
        held: list[Any] = [optimizer.state, *optimizer.state.values(), *optimizer.param_groups]
        self._containers += [(part, dict(part)) for part in held]
        values = (value for moments in optimizer.state.values() for value in moments.values())
        return [value for value in values if isinstance(value, Tensor)]

    @torch.no_grad()
    def restore(self) -> None:
        """Put the state back."""
        for module, rows in self._overwritten:
            module.write_back(rows)
        for attributes, before in self._attributes:
            attributes.clear()
            attributes.update(before)
        for container, content in self._containers:
            container.clear()
            container.extend(content) if isinstance(container, list) else container.update(content)
        if self._tensors:
            tensors, copied = zip(*self._tensors, strict=True)
            torch._foreach_copy_(tensors, copied)
        for weight in self._parameters:
            weight.grad = None

    def release(self) -> None:
        """Stop keeping rows that are overwritten: the step has ended."""
        for module, _ in self._overwritten:
            module.forget_rows()


class Transactions:
    """Runs the steps of one model one after the other, and puts its state back when a step raises.

    A step may be held between its two halves (`hold`); whoever uses the model next completes it first. Copies and
    pickles start anew: neither the lock nor an open step belongs to another object. A process that is forked in the
    middle of a step finds the state of before that step.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()
        self._copies = Copies()
        self._open: list[Savepoint] = []
        self._held: tuple[Callable[[], None], Sequence[Savepoint]] | None = None

    def __reduce__(self) -> tuple[type[Transactions], tuple[()]]:
        return Transactions, ()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let no other thread read or change the model while the block runs; a held step is completed first."""
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
            for savepoint in [*(self._held[1] if self._held else ()), *self._open]:
                savepoint.restore()
            self._open, self._held = [], None
        with self._lock:
            self._complete()
            yield

    def _complete(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0]()

    @contextmanager
    def begin(self, *groups: Sequence[nn.Module]) -> Iterator[list[Savepoint]]:
        """Yield one savepoint for each group of modules, and restore all of them when the block raises anything."""
        with self.exclusive():
            # A network may call the model it is part of: such inner steps have copies of their own.
            savepoints = [Savepoint(modules, None if self._open else self._copies) for modules in groups]
            with self._undoing(savepoints):
                yield savepoints
            if self._held is None or self._held[1] is not savepoints:
                self._release(savepoints)

    def hold(self, savepoints: Sequence[Savepoint], complete: Callable[[], None]) -> None:
        """Leave the step of these savepoints open; `complete` is run once, before the model is used again."""

        def run() -> None:
            with self._undoing(savepoints):
                complete()
            self._release(savepoints)

        self._held = (run, savepoints)

    @contextmanager
    def _undoing(self, savepoints: Sequence[Savepoint]) -> Iterator[None]:
        outer, self._open = self._open, [*savepoints, *self._open]
        try:
            yield
        except BaseException:
            for savepoint in savepoints:
                savepoint.restore()
            self._open = outer
            self._release(savepoints)
            raise
        finally:
            self._open = outer

    def _release(self, savepoints: Sequence[Savepoint]) -> None:
        for savepoint in () if self._open else savepoints:
            savepoint.release()

    def forget(self) -> None:
        """Drop the copies of tensors, which have moved to another device or type."""
        self._copies = Copies()
