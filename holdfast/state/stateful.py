"""Declared state: what a module changes while it runs, and how that is reset, moved, saved and loaded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from holdfast.state.tree import copied, map_tensors


class Stateful(nn.Module):
    """A module that declares once what changes while it runs: `self.add_state("mean_probs", None)`.

    A declared tensor is replaced by a new one, never written into, so that a failed step can be undone by reference.
    Where replacing is too slow, a class with `writes_rows` may write into some rows (`write_rows`), and remembers the
    old ones until the step has ended.

    >>> counter = Stateful(); counter.add_state("seen", 0)
    >>> counter.seen += 5; counter.reset_state(); counter.seen
    0
    """

    writes_rows: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.state_defaults: dict[str, Any] = {}
        self.kept_state: set[str] = set()
        self._overwritten: list[tuple[Tensor, Any, Tensor]] | None = None  # what `write_rows` replaced in this step

    def add_state(self, name: str, default: Any, *, kept: bool = False) -> None:
        """Declare an attribute (tensor, number, text, None, or lists and dicts of them); `kept` survives a reset."""
        self.state_defaults[name] = default
        if kept:
            self.kept_state.add(name)
        setattr(self, name, copy.deepcopy(default))

    def write_rows(self, tensor: Tensor, rows: Any, values: Tensor) -> None:
        """Write into rows of a declared tensor; the previous rows are kept while a step could still fail."""
        if not self.writes_rows:
            raise TypeError(f"{type(self).__name__} writes into rows without saying so; set writes_rows = True in it")
        if self._overwritten is not None:
            before = tensor[rows]  # a copy, unless the rows are a slice or an index
            self._overwritten.append((tensor, rows, before if isinstance(rows, Tensor) else before.clone()))
        tensor[rows] = values

    def remember_rows(self) -> int | None:
        """Keep from now on what `write_rows` overwrites; return how many writes are kept already, None if none were."""
        if self._overwritten is not None:
            return len(self._overwritten)
        self._overwritten = []
        return None

    def write_back(self, writes: int) -> None:
        """Undo all but the first of the kept writes, the latest first."""
        while self._overwritten and len(self._overwritten) > writes:
            tensor, rows, values = self._overwritten.pop()
            tensor[rows] = values

    def forget_rows(self) -> None:
        """Drop what `write_rows` has overwritten: it cannot be undone any more."""
        self._overwritten = None

    def reset_state(self) -> None:
        """Set every declared attribute, here and in the parts of this module, to its default."""
        for part in self.modules():
            if isinstance(part, Stateful):
                for name, default in part.state_defaults.items():
                    if name not in part.kept_state:
                        setattr(part, name, copy.deepcopy(default))

    def declared(self) -> dict[str, Any]:
        """Return the defaults of all that `state_now` returns."""
        return dict(self.state_defaults)

    def check_state(self) -> None:
        """Raise a ValueError when loaded values contradict each other; called before a loaded state is accepted."""

    def state_now(self) -> dict[str, Any]:
        """Return the declared attributes themselves."""
        state: dict[str, Any] = {}
        for name in self.state_defaults:
            state[name] = getattr(self, name)
        return state

    def get_extra_state(self) -> dict[str, Any]:
        """Return a copy of the declared attributes, for torch's `state_dict`."""
        return dict(copied(self.state_now()))

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Set the declared attributes from torch's `state_dict`."""
        for name in self.state_defaults:
            setattr(self, name, copied(state[name]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Stateful:
        # `.to(device)` moves parameters and buffers by itself, and declared tensors here.
        for name in self.state_defaults:
            setattr(self, name, map_tensors(fn, getattr(self, name)))
            self.state_defaults[name] = map_tensors(fn, self.state_defaults[name])
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self
