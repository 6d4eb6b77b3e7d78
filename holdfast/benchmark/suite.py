"""Suites: YAML with names and keyword arguments -> jobs. A mistake is answered with its line and the nearest word."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.benchmark.collapse import ScriptedCollapse
from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS
from holdfast.estimators import ESTIMATORS
from holdfast.methods import METHODS
from holdfast.models import MODELS
from holdfast.recipes import recipe_names, recipe_of
from holdfast.recovery import RECOVERIES
from holdfast.registry import Registry, UnknownNameError, nearest, options_of
from holdfast.streams import STREAMS

__all__ = ["Job", "Protocol", "Suite", "SuiteError", "load_suite", "suite_names"]

Path_ = tuple[str | int, ...]
Protocol: TypeAlias = Literal["online", "offline-fixed", "offline-oracle"]
Score: TypeAlias = Literal["macro_f1", "macro_roc_auc", "silhouette"]


class SuiteError(ValueError):
    """A suite that cannot be run; the message names the line, the problem and the nearest valid word."""


class Named(BaseModel):
    """A name, a label for tables, and keyword arguments: `tent`, or `{name: tent, label: tent-slow, lr: 1.0e-4}`."""

    model_config = ConfigDict(extra="allow")
    name: str
    label: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _label_is_name(self) -> Named:
        self.label = self.label or self.name
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self.model_extra or {})


class ModelEntry(Named):
    """A model by name, and where it is not for all of the suite: its streams and recipes, by patterns of labels."""

    streams: list[str] = ["*"]
    recipes: list[str] = ["*"]
    batch_size: int | None = Field(default=None, ge=1)

    def meets(self, stream: Named, recipe: Named) -> bool:
        """Return whether the suite runs this model with this recipe on this stream."""
        wanted = ((stream, self.streams), (recipe, self.recipes))
        return all(any(fnmatchcase(entry.label, pattern) for pattern in patterns) for entry, patterns in wanted)


class StreamEntry(Named):
    """A stream by name, the data it draws from, its keyword arguments, and perhaps a collapse of whatever meets it.

    It may have a batch size and recipes of its own in place of the suite's: for suites that vary one thing at a time.
    """

    data: Named
    batch_size: int | None = Field(default=None, ge=1)
    recipes: list[Named] | None = Field(default=None, min_length=1)
    collapse: ScriptedCollapse | None = None

    def as_entry(self) -> dict[str, Any]:
        """Return the stream itself as plain data, in which a collapse stands only where there is one."""
        others = {"batch_size", "recipes"}
        return self.model_dump(exclude=others | {"collapse"} if self.collapse is None else others)


class SourceEntry(Named):
    """Samples of a data set, for methods and estimators that look at the source before the first batch."""

    samples: int = Field(default=512, ge=1)


class Suite(BaseModel):
    """A line-up: every model × stream × recipe × seed × protocol is one job.

    Under `online` each batch is answered, adapted to and never seen again. Under `offline-fixed` the whole stream is
    adapted to for so many `epochs` and then answered by the frozen model, under other draws of its corruptions; under
    `offline-oracle` the epoch that answers is chosen with the labels.
    """

    model_config = ConfigDict(extra="forbid")
    name: str
    summary: str = ""
    protocol: list[Protocol] = Field(default=["online"], min_length=1)
    epochs: int = Field(default=1, ge=1)  # of offline protocols, but for presets that were published with their own
    scores: list[Score] = []  # of the answers under offline protocols, besides their accuracy
    models: list[ModelEntry] = Field(min_length=1)
    streams: list[StreamEntry] = Field(min_length=1)
    recipes: list[Named] = Field(min_length=1)
    estimators: list[Named] = []
    source: SourceEntry | None = None  # unlabelled, for methods; `stream` is the stream's own beginning
    holdout: SourceEntry | None = None  # with labels, for estimators, and for no method
    seeds: list[int] = Field(default=[0], min_length=1)
    batch_size: int = Field(default=64, ge=1)
    samples: int | None = Field(default=None, ge=1)  # the length of an endless stream, or a shorter one
    averages: dict[str, list[str]] = {}  # beside the one over all streams: name -> labels of some
    scales: dict[str, dict[str, Any]] = {}  # overrides by name, for runs of another size

    @field_validator("protocol", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def jobs(self) -> list[Job]:
        """Return the jobs, all recipes of one stream and seed together."""
        combinations = [
            (*chosen, recipe)
            for chosen in itertools.product(self.protocol, self.models, self.streams, self.seeds)
            for recipe in chosen[2].recipes or self.recipes
            if chosen[1].meets(chosen[2], recipe)
        ]
        return [
            Job(
                suite=self.name,
                model=model.model_dump(exclude={"streams", "recipes", "batch_size"}),
                stream=stream.as_entry(),
                recipe=for_stream(recipe.model_dump(), stream.label),
                estimators=tuple(estimator.model_dump() for estimator in self.estimators),
                source=self.source.model_dump() if self.source else None,
                holdout=self.holdout.model_dump() if self.holdout else None,
                seed=seed,
                batch_size=stream.batch_size or model.batch_size or self.batch_size,
                samples=self.samples,
                protocol=protocol,
                epochs=1 if protocol == "online" else self._epochs(for_stream(recipe.model_dump(), stream.label)),
                scores=() if protocol == "online" else tuple(self.scores),
                place=place,
                averages=self.averages,
            )
            for place, (protocol, model, stream, seed, recipe) in enumerate(combinations)
        ]

    def _epochs(self, recipe: Mapping[str, Any]) -> int:
        preset = METHODS[recipe_of(recipe["name"]).method].presets.get(recipe.get("preset", ""), {})
        return int(preset.get("epochs", self.epochs))


def for_stream(recipe: dict[str, Any], label: str) -> dict[str, Any]:
    """Return a recipe whose preset may depend on the stream: `{stream}` in its name stands for the stream's label.

    >>> for_stream({"name": "dhauds", "preset": "amaut-{stream}"}, "sc2-WHN-L1")["preset"]
    'amaut-sc2-WHN-L1'
    """
    preset = recipe.get("preset")
    return {**recipe, "preset": preset.replace("{stream}", label)} if isinstance(preset, str) else recipe


@dataclass(frozen=True)
class Job:
    """One run: model, recipe, stream, estimators and seed, as plain data that can travel to another process."""

    suite: str
    model: Mapping[str, Any]
    stream: Mapping[str, Any]
    recipe: Mapping[str, Any]
    estimators: Sequence[Mapping[str, Any]]
    source: Mapping[str, Any] | None
    holdout: Mapping[str, Any] | None
    seed: int
    batch_size: int
    samples: int | None
    protocol: Protocol = "online"
    epochs: int = 1
    scores: Sequence[Score] = ()
    place: int = 0  # in the suite: tables keep its order
    averages: Mapping[str, Sequence[str]] = field(default_factory=dict)  # that tables of the suite have

    @property
    def name(self) -> str:
        """Readable, and unlike that of any other job: the name of its folder."""
        offline_only = ("protocol", "epochs", "scores")
        unsaid = {"suite", "place", "averages", *(offline_only if self.protocol == "online" else ())}
        if self.holdout is None:
            unsaid.add("holdout")  # so that jobs without one keep the names they had before there was any
        content = {key: value for key, value in asdict(self).items() if key not in unsaid}
        digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=4).hexdigest()
        words = [self.recipe["label"], self.stream["label"], self.model["label"], f"seed{self.seed}", digest]
        if self.protocol != "online":
            words.insert(3, self.protocol)
        return "-".join(word.replace("/", "_") for word in words)


def suite_names() -> list[str]:
    """Return the suites that come with the package."""
    folder = resources.files("holdfast.benchmark") / "suites"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_suite(
    name_or_path: str | Path, overrides: Mapping[str, Any] | None = None, *, scale: str | None = None
) -> Suite:
    """Read a suite by name or from a file; `overrides` set dotted keys, such as `{"streams.0.severity": 3}`.

    `scale` names one of the suite's own sets of overrides, such as `smoke` or `paper`.

    >>> load_suite("demo").name
    'demo'
    """
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise SuiteError(f"there is no suite file {path}; name a file or one of: {', '.join(suite_names())}")
        text, where = path.read_text(), str(path)
    elif str(name_or_path) in suite_names():
        where = f"{name_or_path}.yaml"
        text = (resources.files("holdfast.benchmark") / "suites" / where).read_text()
    else:
        raise SuiteError(f"unknown suite {str(name_or_path)!r}; {nearest(str(name_or_path), suite_names())}")
    return parse_suite(text, where, overrides, scale=scale)


def parse_suite(
    text: str, where: str = "suite", overrides: Mapping[str, Any] | None = None, *, scale: str | None = None
) -> Suite:
    """Turn YAML text into a checked suite."""
    try:
        content, lines = yaml.safe_load(text), dict(_lines(yaml.compose(text, yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SuiteError(f"{where}, line {line}: this is not YAML: {error.problem}") from error
    if not isinstance(content, dict):
        raise SuiteError(f"{where}: a suite is a mapping with name, models, streams and recipes")
    for key, value in {**_scale(content, scale), **(overrides or {})}.items():
        _set(content, key, value)

    def fail(path: Path_, message: str) -> SuiteError:
        known = next(path[:end] for end in range(len(path), -1, -1) if path[:end] in lines)
        return SuiteError(f"{where}, line {lines[known]}: {message}")

    try:
        suite = Suite.model_validate(content)
    except ValidationError as error:
        # A word that is not known explains one that is missing, and is told first.
        first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
        # Lines are known by the keys of the file; pydantic's own steps in between are left out.
        path = tuple(part for part in first["loc"])
        message = f"{'.'.join(str(part) for part in path)}: {first['msg'].lower()}"
        if first["type"] == "extra_forbidden":
            known = ScriptedCollapse if "collapse" in path else Suite
            message = f"unknown key {path[-1]!r}; {nearest(str(path[-1]), known.model_fields)}"
        raise fail(path, message) from error
    for path, problem in _name_problems(suite):
        raise fail(path, problem)
    return suite


def _lines(node: yaml.Node | None, path: Path_ = ()) -> Iterator[tuple[Path_, int]]:
    if node is None:
        return
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*path, key.value), key.start_mark.line + 1
            yield from (
                (inner, line) for inner, line in _lines(value, (*path, key.value)) if inner != (*path, key.value)
            )
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*path, index))


def _scale(content: Mapping[str, Any], scale: str | None) -> Mapping[str, Any]:
    """Return the overrides of one of the suite's own scales."""
    scales = content.get("scales") or {}
    if scale is None:
        return {}
    if scale not in scales:
        raise SuiteError(f"this suite has no scale {scale!r}; {nearest(scale, scales)}")
    found: Mapping[str, Any] = scales[scale] or {}
    return found


def _set(content: Any, dotted: str, value: Any) -> None:
    """Set one place, or with `*` each entry of a list: `streams.*.severity`."""
    first, _, rest = dotted.partition(".")
    key = int(first) if first.isdigit() else first
    try:
        if first == "*":
            for place in range(len(content)):
                _set(content, f"{place}.{rest}" if rest else str(place), value)
        elif rest:
            _set(content[key], rest, value)
        elif isinstance(content, list) and not isinstance(key, int):
            raise TypeError(key)
        else:
            content[key] = value
    except (KeyError, IndexError, TypeError) as error:
        raise SuiteError(f"--set {dotted}: the suite has no such place; write e.g. streams.0.severity=3") from error


def _name_problems(suite: Suite) -> Iterator[tuple[Path_, str]]:
    """Find names and options that do not exist, before any of them is run."""
    for index, model in enumerate(suite.models):
        yield from _entry_problems(("models", index), model, MODELS)
    for index, stream in enumerate(suite.streams):
        path: Path_ = ("streams", index)
        yield from _entry_problems((*path, "data"), stream.data, DATASETS)
        yield from _entry_problems(path, stream, STREAMS, ignore={"seed", "calibrate"})  # these the run decides about
        for place, recipe in enumerate(stream.recipes or []):
            yield from _recipe_problems((*path, "recipes", place), recipe, suite)
        for place, name in enumerate(stream.options.get("corruptions", [])):
            for part in str(name).split("+"):
                if part != "clean" and part not in CORRUPTIONS:
                    hint = nearest(part, [*CORRUPTIONS.names(), "clean"])
                    yield (*path, "corruptions", place), f"unknown corruption {part!r}; {hint}"
    for index, recipe in enumerate(suite.recipes):
        yield from _recipe_problems(("recipes", index), recipe, suite)
    for index, model in enumerate(suite.models):
        for key, entries in (("streams", suite.streams), ("recipes", suite.recipes)):
            labels = [entry.label for entry in entries]
            for pattern in getattr(model, key):
                if not any(fnmatchcase(label, pattern) for label in labels):
                    yield ("models", index, key), f"{pattern!r} is no label of {key}; {nearest(pattern, labels)}"
    for index, estimator in enumerate(suite.estimators):
        yield from _entry_problems(("estimators", index), estimator, ESTIMATORS)
        if estimator.label in (earlier.label for earlier in suite.estimators[:index]):
            yield ("estimators", index, "label"), f"there are two estimators {estimator.label!r}; label one of them"
        if "." in estimator.label:
            yield ("estimators", index, "label"), f"{estimator.label!r} has a full stop; choose a label without"
        yield from _need_problems(("estimators", index), estimator.name, estimator.options, suite)
    if suite.source and suite.source.name != "stream":
        yield from _entry_problems(("source",), suite.source, DATASETS)
    if suite.holdout:
        yield from _entry_problems(("holdout",), suite.holdout, DATASETS)
        if any(_given(suite.holdout) == _given(stream.data) for stream in suite.streams):
            yield ("holdout",), "these are the samples of the stream; hold out others, such as another split"


def _given(data: Named) -> tuple[str, dict[str, Any]]:
    """Return a data set and all its options, those included that were left at their defaults."""
    bound = inspect.signature(DATASETS[data.name]).bind_partial(**data.options)
    bound.apply_defaults()
    return data.name, bound.arguments


def _need_problems(path: Path_, name: str, options: Mapping[str, Any], suite: Suite) -> Iterator[tuple[Path_, str]]:
    """Find an estimator that needs held-out data where there are none."""
    try:
        needs = ESTIMATORS[name](**options).needs
    except ValueError as error:
        yield path, str(error)
        return
    if needs in ("inputs", "labels") and suite.holdout is None:
        yield path, f"{name!r} needs held-out source data; add e.g. holdout: {{name: digits, split: validation}}"


def _entry_problems(
    path: Path_, entry: Named, registry: Registry[Any], ignore: set[str] | None = None
) -> Iterator[tuple[Path_, str]]:
    try:
        thing = registry[entry.name]
    except UnknownNameError as error:
        yield (*path, "name"), str(error)
        return
    known = {*_parameters(thing)} - (ignore or set())
    for option in entry.options:
        if option not in known:
            yield (*path, option), f"{registry.kind} {entry.name!r} has no option {option!r}; {nearest(option, known)}"
    for option, parameter in options_of(thing).items():
        if parameter.default is parameter.empty and option not in entry.options:
            yield path, f"{registry.kind} {entry.name!r} needs {option}; add {option}: …"


def _parameters(thing: Any) -> list[str]:
    """Keyword-only options, and the arguments of data sets and models, which may also be positional."""
    return [*options_of(thing), *inspect.signature(thing).parameters]


def _recipe_problems(path: Path_, entry: Named, suite: Suite) -> Iterator[tuple[Path_, str]]:
    if entry.name not in recipe_names():
        yield (*path, "name"), f"unknown method {entry.name!r}; {nearest(entry.name, recipe_names())}"
        return
    published = recipe_of(entry.name)
    kind = METHODS[published.method]
    recovery = entry.options.get("recovery") or published.recovery
    if recovery not in RECOVERIES:
        yield (*path, "recovery"), f"unknown recovery {recovery!r}; {nearest(str(recovery), RECOVERIES)}"
        return
    known = {*options_of(kind), *options_of(RECOVERIES[recovery]), "recovery", "preset"} - {"seed"}
    for option in entry.options:
        if option not in known:
            yield (*path, option), f"{entry.name!r} has no option {option!r}; {nearest(option, known)}"
    meeting = [stream.label for stream in suite.streams if any(model.meets(stream, entry) for model in suite.models)]
    for preset in dict.fromkeys(for_stream(entry.options, label).get("preset") for label in meeting):
        if preset is not None and preset not in kind.presets:
            yield (*path, "preset"), f"{entry.name!r} has no preset {preset!r}; {nearest(str(preset), kind.presets)}"
    if kind.needs_source and suite.source is None:
        yield path, f"{entry.name!r} needs unlabelled source inputs; add e.g. source: {{name: digits, split: train}}"
    taken = {option: entry.options[option] for option in options_of(RECOVERIES[recovery]) if option in entry.options}
    try:
        reads = {*RECOVERIES[recovery](**taken).reads} - {estimator.label for estimator in suite.estimators}
    except ValueError as error:
        yield path, str(error)
        return
    for name in sorted(reads):
        yield from _need_problems(path, name, {}, suite)
