"""The YAML of a suite, written again from the jobs that its manifests keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

Job = Mapping[str, Any]


def suite_text(asked: Iterable[Job]) -> str:
    """Return the YAML of a suite that has these jobs; a comment says so where it has more.

    >>> job = {"suite": "few", "place": 0, "model": {"name": "net", "label": "net"}, "stream": {"name": "continual"}}
    >>> job |= {"recipe": {"name": "tent", "label": "fast", "lr": 0.01}, "seed": 0, "batch_size": 64}
    >>> print(suite_text([job, {**job, "seed": 1}]), end="")
    name: few
    models: [net]
    streams: [continual]
    recipes:
    - {name: tent, label: fast, lr: 0.01}
    seeds: [0, 1]
    batch_size: 64
    """
    jobs = sorted(asked, key=lambda job: (job["suite"], job["place"]))
    sizes = _distinct(job["batch_size"] for job in jobs)
    protocols = _distinct(job.get("protocol", "online") for job in jobs)
    streams = _distinct(_stream_entry(job, len(sizes) > 1) for job in jobs)
    recipes = [
        _distinct(_entry(job["recipe"]) for job in jobs if _stream_entry(job, len(sizes) > 1) == one) for one in streams
    ]
    if any(own != recipes[0] for own in recipes):
        entries = [{"name": stream} if isinstance(stream, str) else stream for stream in streams]
        streams = [{**entry, "recipes": own} for entry, own in zip(entries, recipes, strict=True)]
    content = {
        "name": jobs[0]["suite"],
        "imports": _distinct(file["name"] for job in jobs for file in job.get("imports", [])),
        "protocol": [] if protocols == ["online"] else protocols,
        "speeds": _distinct(job["speed"] for job in jobs if "speed" in job),
        "costs": {job["recipe"]["label"]: job["cost"] for job in jobs if job.get("cost") is not None},
        "epochs": max(job.get("epochs") or 1 for job in jobs),
        "scores": _distinct(score for job in jobs for score in job.get("scores", [])),
        "models": _distinct(_entry(job["model"] | ({"card": job["card"]} if job.get("card") else {})) for job in jobs),
        "streams": streams,
        "recipes": _distinct(_entry(job["recipe"]) for job in jobs),
        "estimators": [_entry(one) for one in jobs[0].get("estimators", [])],
        **{key: _entry(jobs[0][key]) for key in ("source", "holdout") if jobs[0].get(key)},
        "seeds": sorted({job["seed"] for job in jobs}),
        "batch_size": sizes[0],
        **{key: jobs[0].get(key) for key in ("samples", "device", "precision", "memory_format", "averages")},
    }
    written = {
        key: value for key, value in content.items() if value not in ([], {}, None) and (key, value) != ("epochs", 1)
    }
    text: str = yaml.safe_dump(written, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    timed = len(content["speeds"]) - 1 if content["speeds"] else 0  # besides the one of each protocol
    listed = (len(protocols) + timed) * len(content["models"]) * len(content["seeds"]) * sum(map(len, recipes))
    comment = "" if listed == len(jobs) else f"# {len(jobs)} of the {listed} jobs of this suite are in the report.\n"
    return comment + text


def _stream_entry(job: Job, with_size: bool) -> Any:
    stream = {key: _entry(value) if key == "data" else value for key, value in job["stream"].items()}
    return _entry({**stream, "batch_size": job["batch_size"]} if with_size else stream)


def _entry(given: Job) -> Any:
    """Return a mapping as one writes it: without a label that is the name, and the name alone where nothing is left."""
    entry = {key: value for key, value in given.items() if not (key == "label" and value == given["name"])}
    return entry["name"] if list(entry) == ["name"] else entry


def _distinct(values: Iterable[Any]) -> list[Any]:
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return distinct
