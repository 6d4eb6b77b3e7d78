"""What is wrong with options: one sentence for each mistake, the same for every caller."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Interval

from holdfast.registry import UnknownNameError, chain, nearest, options_of, parameters_of

PLAIN = (str, bool, int, float, list, tuple, dict, NoneType)  # anything else is left to the code that takes it
WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "nothing"}


def problems(
    thing: Callable[..., Any],
    given: Mapping[str, Any],
    *,
    owner: str,
    without: Collection[str] = (),
    besides: Collection[str] = (),
) -> Iterator[tuple[str, str]]:
    """Yield each mistake in calling `thing` with these options: the option ("" if one is missing), and a sentence.

    `without` are arguments that the caller passes itself, and `besides` options that the owner has in addition. If
    `thing` has a mapping `elsewhere`, it says of options that belong to something else where to pass them.

    >>> from holdfast.options.ranges import Positive
    >>> def train(*, lr: Positive = 0.1, optimizer: Literal["sgd", "adam"] = "sgd") -> None: ...
    >>> for _, problem in problems(train, {"lrr": 1, "lr": -1, "optimizer": "sgdd"}, owner="method 'tent'"):
    ...     print(problem)
    method 'tent' has no option 'lrr'; did you mean 'lr'?
    lr of method 'tent' must be a number above 0, got -1
    optimizer of method 'tent' must be 'sgd' or 'adam', got 'sgdd'
    """
    known = {name: parameter for name, parameter in parameters_of(thing).items() if name not in without}
    for option, value in given.items():
        if option not in known:
            remedy = getattr(thing, "elsewhere", {}).get(option) or nearest(str(option), [*known, *besides])
            yield option, f"{owner} has no option {option!r}; {remedy}"
        elif wanted := _unmet(thing, option, value):
            remedy = f"; write [{value!r}]" if isinstance(value, str) and not _unmet(thing, option, [value]) else ""
            yield option, f"{option} of {owner} must be {wanted}, got {value!r}{remedy}"
    for option, parameter in known.items():
        if parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY and option not in given:
            yield "", f"{owner} needs {option}; add {option}: …"


def check(thing: Callable[..., Any], given: Mapping[str, Any], *, owner: str, **further: Any) -> None:
    """Raise an UnknownNameError for the first of the `problems`, if there is any."""
    for _, problem in problems(thing, given, owner=owner, **further):
        raise UnknownNameError(problem)


def check_built(part: object, *, owner: str) -> None:
    """Raise an UnknownNameError for the first option of an object that its class would not take."""
    kind = type(part)
    check(kind, {option: getattr(part, option) for option in options_of(kind) if hasattr(part, option)}, owner=owner)


def _unmet(thing: Callable[..., Any], option: str, value: object) -> str | None:
    """Return in words what an option must be if this value is not, or None."""
    hint, accepts = _expected(thing, option) if isinstance(value, PLAIN) else (None, None)
    if accepts is None or accepts(value):
        return None
    infinite = isinstance(value, float) and not math.isfinite(value)
    return in_words(hint).replace("a number", "a finite number" if infinite else "a number")


@lru_cache(maxsize=4096)
def _expected(thing: Callable[..., Any], option: str) -> tuple[Any, Callable[[object], bool] | None]:
    """Return the annotation of an option and whether a value agrees with it; None if that cannot be checked."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError  # slow to import
    from pydantic.errors import PydanticUserError
    from pydantic_core import SchemaError

    hint = annotation_of(thing, option)
    if hint is None:
        return None, None
    try:
        adapter = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False))
    except (PydanticUserError, SchemaError):
        return None, None

    def accepts(value: object) -> bool:
        try:  # a list may be a tuple, and 1.0 a whole number, but "1" is no number
            adapter.validate_python(value, strict=isinstance(value, (str, bool)) or None)
        except ValidationError:
            return False
        return True

    return hint, accepts


def annotation_of(thing: Callable[..., Any], option: str) -> Any:
    """Return the annotation of an option, or None without one that can be read."""
    for function in chain(thing):
        if option in inspect.signature(function).parameters:
            try:
                return get_type_hints(inspect.unwrap(function), include_extras=True).get(option)
            except NameError:  # an annotation that exists for type checkers only
                return None
    return None


def in_words(hint: Any) -> str:
    """Return what an annotation allows.

    >>> from holdfast.options.ranges import Count, Share
    >>> in_words(Share | None), in_words(Count), in_words(tuple[float, float])
    ('a number from 0 to 1 or nothing', 'a whole number from 1 to 1,000,000,000', 'a list (a number, a number)')
    >>> in_words(float | Literal["scaled"]), in_words(Literal["a", "b", "c"])
    ("a number or 'scaled'", "'a', 'b' or 'c'")
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return " ".join([in_words(parts[0]), *(_limits(part) for part in parts[1:] if isinstance(part, Interval))])
    if origin in (Union, UnionType, Literal):
        *first, last = map(repr if origin is Literal else in_words, parts)
        return f"{', '.join(first)} or {last}" if first else last
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list ({', '.join('…' if part is ... else in_words(part) for part in parts)})"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    return WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _limits(interval: Interval) -> str:
    """Return a range in words.

    >>> _limits(Interval(ge=0, lt=1)), _limits(Interval(gt=0))
    ('from 0 to below 1', 'above 0')
    """
    if interval.le is None and interval.lt is None:
        return f"above {interval.gt}" if interval.ge is None else f"of at least {interval.ge}"
    high = f"{interval.le:,}" if interval.lt is None else f"below {interval.lt}"
    return f"above {interval.gt} and up to {high}" if interval.ge is None else f"from {interval.ge} to {high}"
