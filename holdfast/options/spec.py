"""Spec: an entry of a registry by name, with its options, as suites, commands and Python write it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml

from holdfast.options.problems import problems
from holdfast.options.yaml_text import load_yaml
from holdfast.registry import Registry, UnknownNameError, parameters_of

T = TypeVar("T")


@dataclass(frozen=True)
class Spec:
    """A name, keyword options, and the label that tables show instead of the name.

    >>> Spec.parse("{name: tent, label: slow tent, lr: 0.0001}")
    Spec(name='tent', label='slow tent', options={'lr': 0.0001})
    """

    name: str
    label: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)

    @classmethod
    def parse(cls, entry: Any) -> Spec:
        """Return the Spec of a name, of a mapping with a name, or of YAML text that holds either.

        >>> Spec.parse("digits") == Spec.parse({"name": "digits"}) == Spec("digits")
        True
        """
        if isinstance(entry, Spec):
            return entry
        given = _from_text(entry) if isinstance(entry, str) else entry
        if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
            raise ValueError(f"{entry!r} has no name; write a name, or {{name: …, option: …}}")
        label = given.get("label", "")
        if not isinstance(label, str):
            raise ValueError(f"label must be text, got {label!r}; write it in quotes")
        return cls(given["name"], label, {str(key): given[key] for key in given if key not in ("name", "label")})

    def to_json(self) -> dict[str, Any]:
        """Return the mapping that `parse` reads.

        >>> Spec("tent", options={"lr": 1e-4}).to_json()
        {'name': 'tent', 'label': 'tent', 'lr': 0.0001}
        """
        return {"name": self.name, "label": self.label, **self.options}

    def to_text(self) -> str:
        """Return name and options as the command line takes them: the name alone, or YAML on one line.

        >>> Spec("amaut", options={"version": "sc2"}).to_text()
        '{name: amaut, version: sc2}'
        """
        if not self.options:
            return self.name
        entry = {"name": self.name, **self.options}
        return yaml.safe_dump(entry, default_flow_style=True, width=math.inf, sort_keys=False).strip()

    def build(self, registry: Registry[Any], *arguments: Any, **given: Any) -> Any:
        """Build the entry; the options may not set what the caller passes as `arguments` or has `given` by keyword."""
        builder = registry[self.name]
        positional = list(parameters_of(builder))[: len(arguments)]
        for _, problem in self.problems(registry, {*positional, *given}):
            raise UnknownNameError(problem)
        return builder(*arguments, **self.options, **given)

    def problems(self, registry: Registry[Any], given: Collection[str] = ()) -> Iterator[tuple[str, str]]:
        """Yield what keeps `build` from a call: the key at fault ("" for one that is missing), and a sentence.

        >>> from holdfast.registry import Registry
        >>> models = Registry("model", "models")
        >>> _ = models.register("net")(lambda *, width=8: width)
        >>> list(Spec("net", options={"wdth": 4}).problems(models))
        [('wdth', "model 'net' has no option 'wdth'; did you mean 'width'?")]
        """
        try:
            builder = registry[self.name]
        except UnknownNameError as error:
            yield "name", str(error)
        else:
            yield from problems(builder, self.options, owner=f"{registry.kind} {self.name!r}", without=given)

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True, default=str))


def _from_text(text: str) -> Any:
    """Return what YAML text says; a plain name says itself."""
    if not {":", "{"} & set(text):
        return {"name": text}
    try:
        read = load_yaml(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{text!r} is not YAML; write a name, or {{name: …, option: …}}") from error
    return {"name": read} if isinstance(read, str) else read
