"""Name -> thing, one registry per room; a wrong name is answered with the nearest right one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, TypeVar

__all__ = ["Entry", "Registry", "UnknownNameError", "check_options", "nearest", "options_of"]

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One line of a catalogue: a name, what it is, and who published it."""

    name: str
    summary: str
    citation: str = ""


class UnknownNameError(ValueError):
    """A name or an option that does not exist; the message says which one was probably meant."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt word.

    >>> nearest("tnet", ["tent", "eata"])
    "did you mean 'tent'?"
    """
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"


class Registry(Generic[T]):
    """The catalogue of one room, open to third parties through the entry-point group `holdfast.<room>`."""

    def __init__(self, kind: str, room: str) -> None:
        self.kind = kind  # the word for one entry, as it stands in messages
        self.room = room
        self._entries: dict[str, T] = {}
        self._plugins_loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Add a class or function under a name, as a decorator."""

        def add(entry: T) -> T:
            if self._entries.setdefault(name, entry) is not entry:
                raise ValueError(f"the {self.kind} {name!r} is registered already; choose another name")
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            self._load_plugins()
        if name not in self._entries:
            raise UnknownNameError(f"unknown {self.kind} {name!r}; {nearest(name, self._entries)}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> list[str]:
        """Return every known name, in the order of registration."""
        self._load_plugins()
        return list(self._entries)

    def name_of(self, thing: object) -> str:
        """Return the name something is registered under, or its own name where it is not."""
        own = getattr(thing, "__name__", type(thing).__name__)
        return next((name for name, entry in self._entries.items() if entry is thing), own)

    def entries(self) -> list[Entry]:
        """Return name, first sentence and citation of everything in this registry."""
        return [describe(name, self[name]) for name in self.names()]

    def adopted(self, plugin: Any) -> T:
        """Return an entry point's object as an entry of this registry."""
        entry: T = plugin
        return entry

    def _load_plugins(self) -> None:
        if not self._plugins_loaded:
            self._plugins_loaded = True
            for point in metadata.entry_points(group=f"holdfast.{self.room}"):
                self._entries.setdefault(point.name, self.adopted(point.load()))


def describe(name: str, thing: object) -> Entry:
    """Return the catalogue line of a class or function, read off its docstring and its `citation`."""
    text = getattr(thing, "summary", None) or (inspect.getdoc(thing) or "").strip().split("\n\n")[0]
    return Entry(name, " ".join(str(text).split()), str(getattr(thing, "citation", "")))


def options_of(thing: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword options of a class and its bases, or of a function and the one that it `extends`."""
    found: dict[str, inspect.Parameter] = {}
    for function in _chain(thing):
        parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            if parameter.kind is parameter.KEYWORD_ONLY:
                found.setdefault(parameter.name, parameter)
        # Without **options of its own, it has said everything that it takes.
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


def _chain(thing: Any) -> Iterator[Callable[..., Any]]:
    if isinstance(thing, type):
        yield from (vars(kind)["__init__"] for kind in thing.mro() if "__init__" in vars(kind))
        return
    while thing is not None:
        yield thing
        thing = getattr(thing, "extends", None)


def check_options(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first option that nobody takes, naming the nearest one.

    >>> check_options("tent", ["lr"], ["lr", "momentum"])
    """
    known = list(known)
    for name in given:
        if name not in known:
            raise UnknownNameError(f"{owner} has no option {name!r}; {nearest(name, known)}")
