"""Checks of a suite before anything runs: names, options, and data that methods and estimators need."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from holdfast.anchor import read_card
from holdfast.benchmark.building import GIVEN_TO_RECIPES, GIVEN_TO_STREAMS
from holdfast.benchmark.job import Job
from holdfast.benchmark.schema import StreamEntry, Suite
from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS
from holdfast.estimators import ESTIMATORS
from holdfast.model.given import check_estimator_name
from holdfast.models import MODELS, weights_digest
from holdfast.options.plain_jobs import recipe_for
from holdfast.options.spec import Spec
from holdfast.options.suite_files import KeyPath
from holdfast.recipes import RecipeError
from holdfast.registry import OWN, Registry, nearest
from holdfast.streams import STREAMS

Problems = Iterator[tuple[KeyPath, str]]


def problems_of(suite: Suite) -> Problems:
    """Yield every problem: the path of the key at fault in the suite, and a sentence."""
    for index, model in enumerate(suite.models):
        yield from _spec_problems(("models", index), model.spec, MODELS)
    for index, stream in enumerate(suite.streams):
        yield from _stream_problems(("streams", index), stream, suite)
    for index, recipe in enumerate(suite.recipes):
        streams = [stream for stream in suite.streams if stream.recipes is None]
        yield from _recipe_problems(("recipes", index), recipe, streams, suite)
    for index, model in enumerate(suite.models):
        labels = {"streams": [stream.spec.label for stream in suite.streams]}
        labels["recipes"] = [recipe.label for recipe in suite.recipes]
        for key, patterns in (("streams", model.streams), ("recipes", model.recipes)):
            for pattern in patterns:
                if not any(fnmatchcase(label, pattern) for label in labels[key]):
                    yield (
                        ("models", index, key),
                        f"no label of {key} matches {pattern!r}; {nearest(pattern, labels[key])}",
                    )
    for index, estimator in enumerate(suite.estimators):
        yield from _estimator_problems(("estimators", index), estimator, suite)
        if estimator.label in (earlier.label for earlier in suite.estimators[:index]):
            yield ("estimators", index, "label"), f"there are two estimators {estimator.label!r}; label one of them"
    yield from _source_problems(suite)
    yield from _cost_problems(suite)


def _spec_problems(path: KeyPath, spec: Spec, registry: Registry[Any], given: frozenset[str] = frozenset()) -> Problems:
    for key, problem in spec.problems(registry, given):
        yield (*path, key) if key else path, problem


def _stream_problems(path: KeyPath, stream: StreamEntry, suite: Suite) -> Problems:
    yield from _spec_problems((*path, "data"), stream.data, DATASETS)
    yield from _spec_problems(path, stream.spec, STREAMS, GIVEN_TO_STREAMS)
    for index, recipe in enumerate(stream.recipes or []):
        yield from _recipe_problems((*path, "recipes", index), recipe, [stream], suite)
    kind = stream.data.name in DATASETS and DATASETS[stream.data.name]
    if hasattr(kind, "corrupted") or hasattr(kind, "domain_names"):
        return  # the data hold corruptions or natural domains, and only they know which
    for index, name in enumerate(stream.spec.options.get("corruptions", [])):
        for part in str(name).split("+"):
            if part != "clean" and part not in CORRUPTIONS:
                hint = nearest(part, [*CORRUPTIONS.names(), "clean"])
                yield (*path, "corruptions", index), f"unknown corruption {part!r}; {hint} ({OWN})"


def _recipe_problems(path: KeyPath, entry: Spec, streams: Sequence[StreamEntry], suite: Suite) -> Problems:
    met = [stream.spec for stream in streams if any(model.meets(stream, entry) for model in suite.models)]
    for recipe in dict.fromkeys(recipe_for(entry, stream) for stream in met):
        try:
            resolved = suite.resolved(recipe)
            reads = resolved.build_recovery().reads
        except RecipeError as error:
            yield (*path, error.key), str(error)
            return
        except ValueError as error:
            yield path, str(error)
            return
        for option in {*recipe.options} & GIVEN_TO_RECIPES:
            yield (*path, option), f"a recipe of a suite has no option {option!r}: it is that of the run; leave it out"
        if resolved.kind.requires_source(resolved.options) and suite.source is None:
            hint = "add e.g. source: {name: digits, split: train}"
            yield path, f"{recipe.name!r} needs unlabelled source inputs; {hint}"
        for name in sorted({*reads} - {estimator.label for estimator in suite.estimators}):
            yield from _need_problems(path, name, {}, suite)


def _estimator_problems(path: KeyPath, estimator: Spec, suite: Suite) -> Problems:
    yield from _spec_problems(path, estimator, ESTIMATORS)
    try:
        check_estimator_name(estimator.label)
    except ValueError as error:
        yield (*path, "label"), str(error)
    yield from _need_problems(path, estimator.name, estimator.options, suite)


def _need_problems(path: KeyPath, name: str, options: Mapping[str, Any], suite: Suite) -> Problems:
    """Find an estimator that needs held-out data in a suite without any."""
    try:
        needs = ESTIMATORS[name](**options).needs
    except ValueError as error:
        yield path, str(error)
        return
    if needs in ("inputs", "labels") and suite.holdout is None:
        yield path, f"{name!r} needs held-out source data; add e.g. holdout: {{name: digits, split: validation}}"


def _cost_problems(suite: Suite) -> Problems:
    """Find recipes of a timed suite that its costs leave out."""
    labels = [recipe.label for stream in suite.streams for recipe in stream.recipes or suite.recipes]
    for label in dict.fromkeys(labels if suite.costs and "online-timed" in suite.protocol else []):
        if label not in suite.costs:
            yield ("costs",), f"costs has no entry for the recipe {label!r}; add it, or leave costs out"


def _source_problems(suite: Suite) -> Problems:
    source, holdout = suite.source, suite.holdout
    if source and source.spec.name == "stream":
        for option in source.spec.options:
            yield ("source", option), f"source: stream has no option {option!r}; it takes samples only"
    elif source:
        yield from _spec_problems(("source",), source.spec, DATASETS)
    if holdout:
        yield from _spec_problems(("holdout",), holdout.spec, DATASETS)
        if any(_with_defaults(holdout.spec) == _with_defaults(stream.data) for stream in suite.streams):
            yield ("holdout",), "these are the samples of the stream; hold out others, such as another split"


def _with_defaults(data: Spec) -> tuple[str, dict[str, Any]]:
    """Return a data set's name and all its options, defaults included."""
    bound = inspect.signature(DATASETS[data.name]).bind_partial(**data.options)
    bound.apply_defaults()
    return data.name, bound.arguments


def check_cards(jobs: Iterable[Job]) -> None:
    """Raise for the first model whose card cannot be read, or belongs to other weights."""
    for model, path in dict.fromkeys((job.model, job.card) for job in jobs):
        if path is not None:
            try:
                read_card(path).check(weights_digest(model.build(MODELS)))
            except ValueError as error:
                raise ValueError(f"{path} cannot be used for {model.label}: {error}; nothing was run") from error
