"""Registries: one per room, from names to entries; an unknown name is reported with the nearest known one."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, TypeVar

T = TypeVar("T")
REGISTRIES: list[Registry[Any]] = []  # all of them, as their rooms are imported
OWN = "load your own with --import FILE.py, in Python with holdfast.import_file"


@dataclass(frozen=True)
class Entry:
    """One line of a catalogue: name, summary and citation."""

    name: str
    summary: str
    citation: str = ""


class UnknownNameError(ValueError):
    """An unknown name or option; the message suggests the nearest known one."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt word: the nearest known one, or all of them.

    >>> nearest("tnet", ["tent", "eata"])
    "did you mean 'tent'?"
    """
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"


class Registry(Generic[T]):
    """The catalogue of one room, open to third parties through the entry-point group `holdfast.<room>`."""

    def __init__(self, kind: str, room: str, hint: str = "") -> None:
        self.kind = kind  # the word for one entry in messages
        self.room = room
        self.hint = hint  # what else a name may be, for messages
        self.aliases: dict[str, str] = {}  # other names of entries; `names` does not list them
        self._entries: dict[str, T] = {}
        self._owners: dict[str, str] = {}  # the module that registered each name
        self._refused: dict[str, str] = {}  # entry points that are none, and why
        self._plugins_loaded = False
        REGISTRIES.append(self)

    def register(self, name: str, *, alias: str | None = None) -> Callable[[T], T]:
        """Add a class or function under a name, and under an alias if there is one, as a decorator.

        >>> shapes: Registry[type] = Registry("shape", "shapes")
        >>> _ = shapes.register("float64", alias="f8")(float)
        >>> shapes.names(), shapes["f8"] is shapes["float64"], "f8" in shapes
        (['float64'], True, True)
        """

        def add(entry: T) -> T:
            for new in filter(None, (name, alias)):
                if self._entries.get(self.aliases.get(new, new), entry) is not entry:
                    raise ValueError(f"the {self.kind} {new!r} is registered already; choose another name")
            self._entries[name], self._owners[name] = entry, _running_module()
            if alias:
                self.aliases[alias], self._owners[alias] = name, self._owners[name]
            return entry

        return add

    def discard(self, name: str) -> None:
        """Remove an entry if it exists, for tests and notebooks that register their own."""
        for known in (self._entries, self.aliases, self._owners):
            known.pop(name, None)

    def owned_by(self, module: str) -> list[str]:
        """Return the names and aliases that a module registered while it was imported."""
        return [name for name, owner in self._owners.items() if owner == module]

    def __getitem__(self, name: str) -> T:
        name = self.aliases.get(name, name)
        if name not in self._entries:
            self._load_plugins()
        if name in self._refused:
            raise UnknownNameError(self._refused[name])
        if name not in self._entries:
            near = nearest(name, [*self._entries, *self.aliases])
            raise UnknownNameError(
                f"unknown {self.kind} {name!r}; {near} ({'; '.join(filter(None, (self.hint, OWN)))})"
            )
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self.aliases or name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> list[str]:
        """Return every name in the order of registration, without aliases."""
        self._load_plugins()
        return list(self._entries)

    def name_of(self, thing: object) -> str:
        """Return the name under which an entry is registered; for anything else, its own name."""
        own = getattr(thing, "__name__", type(thing).__name__)
        return next((name for name, entry in self._entries.items() if entry is thing), own)

    def entries(self) -> list[Entry]:
        """Return name, summary and citation of every entry."""
        return [describe(name, self[name]) for name in self.names()]

    def adopted(self, plugin: Any) -> T:
        """Return an entry point's object as an entry of this registry."""
        entry: T = plugin
        return entry

    def _load_plugins(self) -> None:
        if not self._plugins_loaded:
            self._plugins_loaded = True
            for point in metadata.entry_points(group=f"holdfast.{self.room}"):
                plugin = point.load()
                if inspect.ismodule(plugin):
                    self._refused[point.name] = (
                        f"the entry point {point.name!r} of holdfast.{self.room} names the module {point.value!r}; "
                        f"name the {self.kind} in it, '{point.value}:…', in the package that declares it"
                    )
                    warnings.warn(self._refused[point.name], stacklevel=4)
                elif point.name not in self.aliases:
                    self._entries.setdefault(point.name, self.adopted(plugin))


def _running_module() -> str:
    """Return the name of the module that is being imported, or that the interpreter runs."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def import_entries(package: str, *, skip: Iterable[str] = ()) -> None:
    """Import every module of a package in alphabetical order, so that each can register its entries.

    A room calls `import_entries(__name__)` in its `__init__`; a new file in its folder is then found without being
    listed. `skip` names modules that register nothing and are slow to import.
    """
    path = importlib.import_module(package).__path__
    for name in sorted({module.name for module in pkgutil.iter_modules(path)} - {*skip}):
        importlib.import_module(f"{package}.{name}")


def describe(name: str, thing: object) -> Entry:
    """Return the catalogue line of a class or function, from its `summary` or docstring and its `citation`."""
    text = getattr(thing, "summary", None) or (inspect.getdoc(thing) or "").strip().split("\n\n")[0]
    return Entry(name, " ".join(str(text).split()), str(getattr(thing, "citation", "")))


def options_of(thing: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only options of a class and its bases, or of a function and the one that it `extends`."""
    return {
        name: parameter for name, parameter in parameters_of(thing).items() if parameter.kind is parameter.KEYWORD_ONLY
    }


def parameters_of(thing: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return all arguments by keyword of a class and its bases, or of a function and the one that it `extends`.

    >>> list(parameters_of(lambda data, split="test", *rest, seed=0, **options: None))
    ['data', 'split', 'seed']
    """
    by_keyword = [inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD]
    merged: dict[str, inspect.Parameter] = {}
    for function in chain(thing):
        parameters = list(inspect.signature(function).parameters.values())
        for parameter in parameters[isinstance(thing, type) :]:  # without `self`
            if parameter.kind in by_keyword:
                merged.setdefault(parameter.name, parameter)
        # Without **options nothing is passed on to the next one.
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
        by_keyword = by_keyword[:1]  # further functions get their other arguments from the first
    return merged


def meanings_of(kind: type) -> dict[str, str]:
    """Return what each option of a class means, from `meanings` of the class and its bases."""
    own = (vars(base).get("meanings", {}) for base in reversed(kind.mro()))
    return {name: meaning for meanings in own for name, meaning in meanings.items()}


def chain(thing: Any) -> Iterator[Callable[..., Any]]:
    """Yield the functions whose arguments a call can set: those of all bases, or along `extends`."""
    if isinstance(thing, type):
        yield from (vars(kind)["__init__"] for kind in thing.mro() if "__init__" in vars(kind))
        return
    while thing is not None:
        yield thing
        thing = getattr(thing, "extends", None)
