"""An extension of griffe: every function and class of the reference has a table of its parameters.

The meaning of a parameter is, in this order, what `Args:` in the docstring says of it, or in the class that it is
inherited from; what `meanings` of a method says; the comment on the line that declares it; and, for words that mean the
same in a whole package, docs/parameters.yaml. `make docs` and tests/docs/test_api_reference.py fail on a parameter
without one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import yaml

DOCS = Path(__file__).parent
COMMON: dict[str, dict[str, str]] = yaml.safe_load((DOCS / "parameters.yaml").read_text())
ARGS = re.compile(r"^Args:\n(?:[ ]{4}.*\n?|\n(?=[ ]{4}))*", re.MULTILINE)


class ParameterTables(griffe.Extension):
    """Write the meaning of every parameter into the docstrings that the site shows."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change the docstrings of all names of the reference."""
        for name, thing in public(pkg).items():
            known = {parameter: meaning(thing, parameter) for parameter in parameters(thing)}
            missing = [parameter for parameter, text in known.items() if not text]
            if missing:
                griffe.logger.warning(f"{name} has parameters without a meaning: {', '.join(missing)}")
            if thing.docstring is not None and known:
                thing.docstring.value = with_table(thing.docstring.value, known)


def public(package: griffe.Module) -> dict[str, griffe.Function | griffe.Class]:
    """Return the functions and classes that pages of docs/api show, by the name under which they show them.

    Models of pydantic get the constructor that they have when a program runs.
    """
    pages = "\n".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))
    names = dict.fromkeys(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    things = {name: package[name.removeprefix(f"{package.name}.")] for name in names}
    targets = {name: thing.final_target if thing.is_alias else thing for name, thing in things.items()}
    for thing in targets.values():
        if isinstance(thing, griffe.Class) and is_settings(thing):
            thing.set_member("__init__", constructor(thing))
    return {name: thing for name, thing in targets.items() if isinstance(thing, griffe.Function | griffe.Class)}


def parameters(thing: griffe.Function | griffe.Class) -> list[str]:
    """Return the names of all parameters; of a class, those of its constructor."""
    return [parameter.name for parameter in thing.parameters if parameter.name not in ("self", "cls")]


def meaning(thing: griffe.Function | griffe.Class, parameter: str) -> str:
    """Return what a parameter means, or nothing if that is not written down."""
    for owner in owners(thing):
        known = described(owner.docstring.value if owner.docstring else "") | options(owner)
        if said := known.get(parameter) or commented(owner, parameter):
            return said
    room = COMMON.get(thing.canonical_path.split(".")[1], {})
    return room.get(f"{thing.name}.{parameter}") or room.get(parameter) or COMMON["everywhere"].get(parameter, "")


def owners(thing: griffe.Function | griffe.Class) -> Iterator[griffe.Function | griffe.Class]:
    """Yield a function; or a class, its constructor, and its bases with theirs."""
    yield thing
    for base in [thing, *thing.mro()] if isinstance(thing, griffe.Class) else ():
        yield base
        if isinstance(base.members.get("__init__"), griffe.Function):
            yield base.members["__init__"]


def described(text: str) -> dict[str, str]:
    """Return what the `Args:` of a docstring say, by parameter.

    >>> described("Do it.\\n\\nArgs:\\n    depth: of the network,\\n        in layers.\\n    *rest: more.\\n")
    {'depth': 'of the network, in layers.', 'rest': 'more.'}
    """
    section = ARGS.search(text)
    entries = re.findall(r"^    \*{0,2}(\w+): (.+(?:\n {5,}.+)*)", section.group() if section else "", re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in entries}


def options(thing: griffe.Function | griffe.Class) -> dict[str, str]:
    """Return what `meanings` of a method, an estimator or a recovery says of its options."""
    meanings = thing.members.get("meanings") if isinstance(thing, griffe.Class) else None
    return ast.literal_eval(str(meanings.value)) if isinstance(meanings, griffe.Attribute) else {}


def commented(thing: griffe.Function | griffe.Class, parameter: str) -> str:
    """Return the comment on the line that declares a parameter, or a field of a class."""
    declared = thing.members.get(parameter) if isinstance(thing, griffe.Class) else thing
    if declared is None or declared.lineno is None or not isinstance(thing.filepath, Path):
        return ""
    lines = lines_of(thing.filepath)[declared.lineno - 1 : declared.endlineno]
    pattern = re.compile(rf"^\s+{parameter}: [^#]*  # (?!type:|noqa)(.+)$")
    return next((match[1] for match in map(pattern.match, lines) if match), "")


@cache
def lines_of(path: Path) -> list[str]:
    """Return the lines of a module."""
    return path.read_text(encoding="utf-8").splitlines()


def with_table(text: str, known: dict[str, str]) -> str:
    """Return a docstring with one `Args:` section for all parameters, before its first example."""
    section = "Args:\n" + "\n".join(f"    {name}: {said}" for name, said in known.items())
    rest = ARGS.sub("", text).rstrip()
    before, example, after = rest.partition("\n```pycon")
    return f"{before.rstrip()}\n\n{section}\n" + (f"\n{example.strip()}{after}" if example else "")


def is_settings(thing: griffe.Class) -> bool:
    """Return whether a class is a model of pydantic, whose constructor takes its fields."""
    return any("BaseModel" in str(base) for owner in [thing, *thing.mro()] for base in owner.bases)


def constructor(thing: griffe.Class) -> griffe.Function:
    """Return the constructor of a model of pydantic."""
    fields = [
        field
        for field in thing.members.values()
        if isinstance(field, griffe.Attribute) and field.annotation is not None and not field.name.startswith("_")
    ]
    taken = [
        griffe.Parameter(
            field.name,
            annotation=field.annotation,
            kind=griffe.ParameterKind.keyword_only,
            default=default(field.value),
        )
        for field in fields
    ]
    return griffe.Function(
        "__init__", parameters=griffe.Parameters(*taken), lineno=thing.lineno, endlineno=thing.lineno
    )


def default(value: Any) -> Any:
    """Return the default of a field, which may stand inside `Field(…)`."""
    if not (isinstance(value, griffe.ExprCall) and str(value.function) == "Field"):
        return value
    given = {argument.name: argument.value for argument in value.arguments if isinstance(argument, griffe.ExprKeyword)}
    first = [argument for argument in value.arguments if not isinstance(argument, griffe.ExprKeyword)]
    return first[0] if first else given.get("default", given.get("default_factory"))
