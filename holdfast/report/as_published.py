"""Compare a run with the published one: the job of the same shipped suite at a scale named `paper…`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from pathlib import PurePath
from typing import Any, TypeAlias

from holdfast.options.plain_jobs import plain_jobs
from holdfast.options.suite_files import scaled, shipped_text, suite_names
from holdfast.options.yaml_text import load_yaml
from holdfast.report.paper_and_code import accepted

Job: TypeAlias = Mapping[str, Any]  # as a manifest keeps it in `asked`

LOCATIONS = frozenset({"folder", "paths", "clean", "noise", "calibration"})  # options that say where data are
COMPARED = ("model", "stream", "recipe", "source", "holdout", "batch_size", "samples", "protocol", "epochs")
EMBEDDED = frozenset({"digits", "keywords"})  # in no published table
TARGETS_PERCENT = {"easy": 40.0, "medium": 20.0, "hard": 0.0}  # of the source on the published matrices of CCC


@dataclass(frozen=True)
class Publication:
    """What a run has in common with the published ones."""

    deviations: tuple[str, ...]  # one sentence for each difference; none: the same thing is measured
    seeds: tuple[int, ...] = ()  # of the published runs


def publication_of(manifest: Mapping[str, Any]) -> Publication | None:
    """Compare a run with the published one of the same stream, recipe and protocol; None if its suite is not published.

    The job is the one that the manifest keeps. Folders and files may have any names: data and weights are known by
    their digest, or where none is published by their documented size, and a walk by who measured its accuracies. Where
    the paper says otherwise than its code (`paper_and_code.yaml`), both are as published.

    >>> asked = {"suite": "cin-c", "stream": {"label": "new", "data": {"name": "imagenet"}}, "protocol": "online"}
    >>> publication_of({"asked": {**asked, "recipe": {"label": "tent"}}}).deviations
    ("no published run is labelled 'new', 'tent', 'online'",)
    """
    asked: Job = manifest.get("asked") or {}
    known = _published(asked.get("suite", ""))
    if known is None or asked["stream"]["data"]["name"] in EMBEDDED:
        return None
    names = _names(asked)
    published = [(job, _as_run(job, manifest.get("resolved", {}))) for job in known.get(names, ())]
    if not published:
        return Publication((f"no published run is labelled {', '.join(map(repr, names))}",))
    seeds = tuple(dict.fromkeys(job["seed"] for job, _ in published))
    material = manifest.get("material")
    closest = min(((*_differences(asked, named), *_other_material(material, job)) for job, named in published), key=len)
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
        for job in plain_jobs(scaled(load_yaml(text), scale)) if scale.startswith("paper") else ():
            jobs.setdefault(_names(job), []).append(json.loads(json.dumps(job)))
    return jobs


def _as_run(job: Job, resolved: Mapping[str, Any]) -> Job:
    """Return a published job with the number of epochs of the run's preset, and the run's name for the same data."""
    data, names = job["stream"]["data"], resolved.get("data_names", [])
    epochs = resolved.get("preset_epochs") if job["protocol"].startswith("offline") else None
    named = {**job["stream"], "data": {**data, "name": names[0] if data["name"] in names else data["name"]}}
    return {**job, "stream": named, "epochs": epochs or job["epochs"]}


def _differences(asked: Job, published: Job) -> Iterator[str]:
    given, wanted = (dict(_settings(job)) for job in (asked, published))
    for key in dict.fromkeys((*wanted, *given)):
        if given.get(key) != wanted.get(key) and given.get(key) not in accepted(asked["suite"], key):
            yield f"{key} is {_shown(given.get(key))} instead of {_shown(wanted.get(key))}"
    own = {estimator["label"]: estimator for estimator in asked["estimators"]}
    for estimator in published["estimators"]:
        if own.get(estimator["label"], estimator) != estimator:
            yield f"the estimator {estimator['label']} has other options"


def _other_material(material: Mapping[str, Any] | None, published: Job) -> Iterator[str]:
    """Yield how data, weights and calibration differ from the documented ones, by digest or else by size."""
    if material is None:
        yield "the run does not say which data and weights it used; run it again"
        return
    data, model = published["stream"]["data"], published["model"]
    folder = PurePath(data.get("folder") or data.get("paths") or "").name
    size = model.get("num_classes")
    for kind, name, unit in (
        ("data", f"{data['name']} {folder}", "samples"),
        ("weights", " ".join([model["name"], model["label"], *([] if size is None else [str(size)])]), "parameters"),
    ):
        for row in published_rows("published_material.csv"):  # documented sizes, and digests where they are known
            if row["kind"] == kind and fnmatchcase(name, row["name"]):
                yield from _other_sizes(kind, unit, material[kind], row)
    if published["stream"]["name"] == "ccc":
        yield from _other_walk(material.get("calibration"), published["stream"]["label"])


def _other_sizes(kind: str, unit: str, used: Mapping[str, Any], row: Mapping[str, str]) -> Iterator[str]:
    if row["digest"] and used["digest"] != row["digest"]:
        yield f"the digest of the {kind} is {used['digest']} instead of {row['digest']}"
    for key, wanted in ((unit, row["count"]), ("classes", row["classes"])):
        if wanted and used[key] != int(wanted):
            yield f"the {kind} {'have' if kind == 'weights' else 'has'} {used[key]:,} {key} instead of {int(wanted):,}"


def _other_walk(used: Mapping[str, Any] | None, label: str) -> Iterator[str]:
    """Yield why a walk is not the published one: its accuracies were measured here, or it has other rules."""
    if used is None or not used["imported"]:
        yield f"the walk is self-calibrated{calibrated_on(used)}, not made from the published accuracy matrices"
        return
    target = TARGETS_PERCENT[label.partition("-")[0]]
    if used["target_percent"] != target:
        yield f"the target of the walk is {used['target_percent']:g} % instead of {target:g} %"
    if used.get("own"):
        yield f"the walk was calibrated with other settings than CCC's: {', '.join(used['own'])}"


def calibrated_on(used: Mapping[str, Any] | None) -> str:
    """Return in words what a calibration was measured on, as a manifest keeps it.

    >>> calibrated_on({"imported": False, "images": 5000, "points": 441})
    ' on 5,000 images at all 441 points'
    """
    if not used or not used.get("images"):
        return ""
    points = "all 441 points" if used["points"] == 441 else f"{used['points']} of 441 points of a pair"
    return f" on {used['images']:,} images at {points}"


@lru_cache
def published_rows(file: str = "published.csv") -> Sequence[Mapping[str, str]]:
    """Return the published numbers of a file beside this one, one mapping for each."""
    text = (resources.files("holdfast.report") / file).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def _settings(job: Job) -> Iterator[tuple[str, Any]]:
    for key in COMPARED:
        yield from _flat(key, job.get(key))


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for inner, entry in value.items():
            if inner in LOCATIONS or (inner == "label" and key != "model"):
                continue
            if inner == "weights" and isinstance(entry, str) and PurePath(entry).suffix:
                continue  # a file: its content counts, not its name
            yield from _flat(f"{key}.{inner}", entry)
    else:
        yield key, value


def _shown(value: Any) -> str:
    return "not set" if value is None else value if isinstance(value, str) else json.dumps(value)
