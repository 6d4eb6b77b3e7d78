"""Compare a job with the published one: the job of the same suite at a scale named `paper…`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from pathlib import PurePath
from typing import Any

from holdfast.benchmark.job import Job
from holdfast.benchmark.suite import load_suite, suite_names
from holdfast.data import DATASETS
from holdfast.yaml_text import load_yaml

__all__ = ["Publication", "publication_of"]

PLACES = frozenset({"folder", "clean", "noise", "calibration"})  # options that say where data are, not what they are
COMPARED = ("model", "stream", "recipe", "source", "holdout", "batch_size", "samples", "protocol", "epochs")
EMBEDDED = frozenset({"digits", "keywords"})  # in no published table


@dataclass(frozen=True)
class Publication:
    """What a job has in common with a published one."""

    deviations: tuple[str, ...]  # one sentence for each difference; none: the same thing is measured
    seeds: tuple[int, ...] = ()  # of the published runs

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON."""
        return {name: list(values) for name, values in asdict(self).items()}


def publication_of(job: Job) -> Publication | None:
    """Compare a job with the published job of the same stream, recipe and model; None if its suite is not published.

    Folders may differ; everything else must be equal, and weights are compared by the name of their file.

    >>> from dataclasses import replace
    >>> job = load_suite("cin-c", scale="paper").jobs()[2]
    >>> publication_of(job).deviations
    ()
    >>> publication_of(replace(job, batch_size=32)).deviations
    ('batch_size is 32 instead of 64',)
    """
    if job.suite not in suite_names() or job.data.name in EMBEDDED:
        return None
    found = [known for known in _published(job.suite) if _names(known) == _names(job)]
    if not found:
        labels = ", ".join(repr(label) for label in _names(job))
        return Publication((f"no published run is labelled {labels}",))
    seeds = tuple(dict.fromkeys(known.seed for known in found))
    closest = min((tuple(_differences(job, known)) for known in found), key=len)
    if job.seed not in seeds:
        closest = (*closest, f"seed is {job.seed} instead of {' or '.join(map(str, seeds))}")
    return Publication(closest, seeds)


def _names(job: Job) -> tuple[str, str, str]:
    return job.stream.label, job.recipe.label, job.protocol


@lru_cache(maxsize=2)
def _published(suite: str) -> Sequence[Job]:
    text = (resources.files("holdfast.benchmark") / "suites" / f"{suite}.yaml").read_text()
    scales = [name for name in load_yaml(text).get("scales", {}) if name.startswith("paper")]
    return [job for scale in scales for job in load_suite(suite, scale=scale).jobs()]


def _differences(job: Job, known: Job) -> Iterator[str]:
    given, wanted = (dict(_settings(entry)) for entry in (job, known))
    for key in dict.fromkeys((*wanted, *given)):
        if given.get(key) != wanted.get(key):
            yield f"{key} is {_shown(given.get(key))} instead of {_shown(wanted.get(key))}"
    own = {estimator.label: estimator for estimator in job.estimators}
    for estimator in known.estimators:
        if own.get(estimator.label, estimator) != estimator:
            yield f"the estimator {estimator.label} has other options"


def _settings(job: Job) -> Iterator[tuple[str, Any]]:
    content = job.to_json()
    for key in COMPARED:
        yield from _flat(key, content[key])


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for inner, entry in value.items():
            if inner in PLACES or (inner == "label" and key != "model"):
                continue
            if inner == "weights" and isinstance(entry, str):
                entry = PurePath(entry).name
            if inner == "name" and entry in DATASETS and key.endswith("data"):
                entry = DATASETS.name_of(DATASETS[entry])  # aliases are equal
            yield from _flat(f"{key}.{inner}", entry)
    else:
        yield key, value


def _shown(value: Any) -> str:
    return "not set" if value is None else value if isinstance(value, str) else json.dumps(value)
