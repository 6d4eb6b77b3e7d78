"""Known differences between the papers and their official code, from `paper_and_code.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from holdfast.options.yaml_text import load_yaml


@dataclass(frozen=True)
class Other:
    """The option for what is not followed; its fields are described in the file."""

    kind: str
    name: str = ""
    scale: str = ""
    data: str = ""
    instead: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The name of the method whose option it is, if it is one of a method."""
        return self.name if self.kind == "method" else ""

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.set.items())
        if self.kind == "suite":
            keys = " ".join(f"--set '{key}={_yaml(value)}'" for key, value in self.set.items())
            return f"holdfast bench {self.name} --scale {self.scale} {keys}"
        if self.kind == "criterion":
            return f"criterion({self.name!r}, {self.data!r}, {options})"
        return self.instead or f"{'ccc' if self.kind == 'calibration' else self.name}({options})"


@dataclass(frozen=True)
class Difference:
    """One thing that a paper and its official code say differently."""

    source: str  # the paper
    topic: str
    paper: str
    code: str
    follows: str  # code, paper, same or ours
    matters: str
    other: Other | None = None
    none: str = ""  # why there is no option
    accepted: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@lru_cache
def differences() -> tuple[Difference, ...]:
    """Return every known difference, in the order of the file.

    >>> [difference.topic for difference in differences() if difference.accepted][0]
    'distance between domains'
    """
    content = load_yaml((resources.files("holdfast.report") / "paper_and_code.yaml").read_text(encoding="utf-8"))
    return tuple(
        Difference(source, **{**entry, "other": Other(**entry["other"]) if "other" in entry else None})
        for source, entries in content.items()
        for entry in entries
    )


def accepted(suite: str, key: str) -> Sequence[Any]:
    """Return the values of the paper for a setting of its suites, which are as published as those of the code.

    >>> accepted("unitta-main", "recipe.distance"), accepted("ccc", "recipe.distance")
    (['kl'], [])
    """
    return [
        value
        for difference in differences()
        if suite.startswith(difference.source.lower())
        for value in difference.accepted.get(key, ())
    ]


def _yaml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    return "null" if value is None else str(value)
