"""Check values of options against the annotations of the classes and functions that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from holdfast.registry import chain

__all__ = ["type_problem"]

PLAIN = (str, bool, int, float, list, tuple, dict, NoneType)  # anything else is left to the code that takes it
WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "nothing"}


def type_problem(thing: Callable[..., Any], option: str, value: object) -> str | None:
    """Return what is wrong with the type of an option's value, or None if nothing is known to be.

    >>> def train(*, lr: float = 0.1) -> None: ...
    >>> type_problem(train, "lr", "fast")
    "lr must be a number, got 'fast'"
    >>> type_problem(train, "lr", 1)
    """
    hint, accepts = _check(thing, option)
    if accepts is None or type(value) not in PLAIN or accepts(value):
        return None
    return f"{option} must be {_in_words(hint)}, got {value!r}"


@lru_cache(maxsize=4096)
def _check(thing: Callable[..., Any], option: str) -> tuple[Any, Callable[[object], bool] | None]:
    """Return the annotation of an option and whether a value agrees with it; None if that cannot be checked."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError  # slow to import
    from pydantic.errors import PydanticUserError

    hint = _hint(thing, option)
    if hint is None:
        return None, None
    try:
        adapter = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        return None, None

    def accepts(value: object) -> bool:
        try:  # a list may be a tuple, and 1.0 a whole number, but "1" is no number
            adapter.validate_python(value, strict=isinstance(value, (str, bool)) or None)
        except ValidationError:
            return False
        return True

    return hint, accepts


def _hint(thing: Callable[..., Any], option: str) -> Any:
    """Return the annotation of an option, or None without one that can be read."""
    for function in chain(thing):
        if option in inspect.signature(function).parameters:
            try:
                return get_type_hints(inspect.unwrap(function)).get(option)
            except NameError:  # an annotation that exists for type checkers only
                return None
    return None


def _in_words(hint: Any) -> str:
    """Return what an annotation allows.

    >>> _in_words(float | None), _in_words(Literal["sgd", "adam"]), _in_words(tuple[float, float])
    ('a number or nothing', "'sgd' or 'adam'", 'a list (tuple[float, float])')
    """
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_in_words, get_args(hint)))
    if get_origin(hint) in (tuple, list):
        return f"a list ({hint})"
    return WORDS.get(hint, str(hint).removeprefix("typing."))
