"""Compare a run with the published one: the job of the same shipped suite at a scale named `paper…`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from pathlib import PurePath
from typing import Any, TypeAlias

from holdfast.options.spec import Spec
from holdfast.options.suite_files import scaled, shipped_text, suite_names
from holdfast.options.yaml_text import load_yaml

__all__ = ["Publication", "publication_of"]

Job: TypeAlias = Mapping[str, Any]  # as a manifest keeps it in `asked`

LOCATIONS = frozenset({"folder", "clean", "noise", "calibration"})  # options that say where data are
COMPARED = ("model", "stream", "recipe", "source", "holdout", "batch_size", "samples", "protocol", "epochs")
EMBEDDED = frozenset({"digits", "keywords"})  # in no published table
OF_MODELS = frozenset({"streams", "recipes", "batch_size"})  # keys of a suite's models and streams that are no options
OF_STREAMS = frozenset({"recipes", "batch_size", "oracle_score"})
INTRUDERS = {"every_batches": 3, "share": 1.0, "mixed": False}  # defaults of a suite's schema


@dataclass(frozen=True)
class Publication:
    """What a run has in common with the published ones."""

    deviations: tuple[str, ...]  # one sentence for each difference; none: the same thing is measured
    seeds: tuple[int, ...] = ()  # of the published runs


def publication_of(manifest: Mapping[str, Any]) -> Publication | None:
    """Compare a run with the published one of the same stream, recipe and protocol; None if its suite is not published.

    The job is the one that the manifest keeps. Folders may differ; everything else must be equal, and weights are
    compared by the name of their file.

    >>> asked = {"suite": "cin-c", "stream": {"label": "new", "data": {"name": "imagenet"}}, "protocol": "online"}
    >>> publication_of({"asked": {**asked, "recipe": {"label": "tent"}}}).deviations
    ("no published run is labelled 'new', 'tent', 'online'",)
    """
    asked: Job = manifest.get("asked") or {}
    known = _published(asked.get("suite", ""))
    if known is None or asked["stream"]["data"]["name"] in EMBEDDED:
        return None
    names = _names(asked)
    published = [_as_run(job, manifest.get("resolved", {})) for job in known.get(names, ())]
    if not published:
        return Publication((f"no published run is labelled {', '.join(map(repr, names))}",))
    seeds = tuple(dict.fromkeys(job["seed"] for job in published))
    closest = min((tuple(_differences(asked, job)) for job in published), key=len)
    if asked["seed"] not in seeds:
        closest = (*closest, f"seed is {asked['seed']} instead of {' or '.join(map(str, seeds))}")
    return Publication(closest, seeds)


def _names(job: Job) -> tuple[str, str, str]:
    return job["stream"]["label"], job["recipe"]["label"], job.get("protocol", "online")


@lru_cache(maxsize=4)
def _published(suite: str) -> Mapping[tuple[str, str, str], Sequence[Job]] | None:
    """Return the jobs of a suite at all scales of its paper, by their names; None if the suite is not shipped."""
    if suite not in suite_names():
        return None
    text, jobs = shipped_text(suite), dict[tuple[str, str, str], list[Job]]()
    for scale in load_yaml(text).get("scales", {}):
        for job in _jobs(scaled(load_yaml(text), scale)) if scale.startswith("paper") else ():
            jobs.setdefault(_names(job), []).append(json.loads(json.dumps(job)))
    return jobs


def _jobs(suite: Mapping[str, Any]) -> Iterator[Job]:
    """Yield the compared part of every job of a suite, with the defaults of its schema."""
    protocols = suite.get("protocol", "online")
    chosen = product(
        [protocols] if isinstance(protocols, str) else protocols,
        suite["models"],
        suite["streams"],
        suite.get("seeds", [0]),
    )
    for protocol, model, stream, seed in chosen:
        of_model = model if isinstance(model, Mapping) else {}
        for entry in stream.get("recipes") or suite["recipes"]:
            job = {
                "model": _entry(model, OF_MODELS),
                "stream": _entry(stream, OF_STREAMS) | {"data": _entry(stream["data"])},
                "recipe": _entry(entry),
                "estimators": [_entry(estimator) for estimator in suite.get("estimators", [])],
                **{key: _samples(suite.get(key)) for key in ("source", "holdout")},
                "seed": seed,
                "batch_size": stream.get("batch_size") or of_model.get("batch_size") or suite.get("batch_size", 64),
                "samples": suite.get("samples"),
                "protocol": protocol,
                "epochs": 1 if protocol.startswith("online") else suite.get("epochs", 1),
            }
            if "preset" in job["recipe"]:
                job["recipe"]["preset"] = job["recipe"]["preset"].replace("{stream}", job["stream"]["label"])
            if "intruders" in stream:
                job["stream"]["intruders"] = INTRUDERS | stream["intruders"]
            if protocol == "offline-oracle" and stream.get("oracle_score", "accuracy") != "accuracy":
                job["stream"]["oracle_score"] = stream["oracle_score"]
            labels = (("streams", job["stream"]["label"]), ("recipes", job["recipe"]["label"]))
            if all(any(fnmatchcase(label, name) for name in of_model.get(key, ["*"])) for key, label in labels):
                yield job


def _entry(given: Any, besides: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return an entry of a suite as a job holds it, without the keys that are the suite's own."""
    options = {key: given[key] for key in given if key not in besides} if isinstance(given, Mapping) else given
    return Spec.parse(options).to_json()


def _samples(given: Any) -> dict[str, Any] | None:
    return None if given is None else {"samples": 512} | _entry(given)


def _as_run(job: Job, resolved: Mapping[str, Any]) -> Job:
    """Return a published job with the number of epochs of the run's preset, and the run's name for the same data."""
    data, names = job["stream"]["data"], resolved.get("data_names", [])
    epochs = resolved.get("preset_epochs") if job["protocol"].startswith("offline") else None
    named = {**job["stream"], "data": {**data, "name": names[0] if data["name"] in names else data["name"]}}
    return {**job, "stream": named, "epochs": epochs or job["epochs"]}


def _differences(asked: Job, published: Job) -> Iterator[str]:
    given, wanted = (dict(_settings(job)) for job in (asked, published))
    for key in dict.fromkeys((*wanted, *given)):
        if given.get(key) != wanted.get(key):
            yield f"{key} is {_shown(given.get(key))} instead of {_shown(wanted.get(key))}"
    own = {estimator["label"]: estimator for estimator in asked["estimators"]}
    for estimator in published["estimators"]:
        if own.get(estimator["label"], estimator) != estimator:
            yield f"the estimator {estimator['label']} has other options"


def _settings(job: Job) -> Iterator[tuple[str, Any]]:
    for key in COMPARED:
        yield from _flat(key, job.get(key))


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for inner, entry in value.items():
            if inner in LOCATIONS or (inner == "label" and key != "model"):
                continue
            if inner == "weights" and isinstance(entry, str):
                entry = PurePath(entry).name
            yield from _flat(f"{key}.{inner}", entry)
    else:
        yield key, value


def _shown(value: Any) -> str:
    return "not set" if value is None else value if isinstance(value, str) else json.dumps(value)
