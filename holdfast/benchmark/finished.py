"""Finished runs: checks that weights, data and suite are still those that a run was made with."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.benchmark.building import build_stream, forget_data, network_for
from holdfast.benchmark.job import Job
from holdfast.machine.folders import write_whole
from holdfast.models import MODELS, weights_digest
from holdfast.options.spec import Spec

AGAIN = "delete the folder to run it again, or choose another folder"
OF_THE_SUITE = ("place", "averages")  # parts of a manifest that do not change the run


def check_finished(job: Job, folder: Path) -> None:
    """Raise if weights or data are no longer those of a finished run; its index in the suite is brought up to date.

    Versions of packages may differ: the numbers are those of the manifest. Inputs that cannot be read any more, such as
    data that were deleted after the run, are not compared.
    """
    path = folder / "manifest.json"
    manifest = read_manifest(path)
    weights, stream = _inputs_of(job.model, job.stream, job.data, job.seed)
    if weights not in (None, manifest["protocol"].get("weights")):
        raise ValueError(f"{folder} was finished with other weights than {job.model.label} has now; {AGAIN}")
    if stream not in (None, json.dumps(manifest["stream"]["spec"], sort_keys=True)):
        raise ValueError(f"{folder} was finished with another stream or other data than the job has now; {AGAIN}")
    asked = json.loads(json.dumps(job.to_json()))
    if manifest.get("asked") != asked:
        changed = {**manifest, "asked": asked, **{key: asked[key] for key in OF_THE_SUITE}}
        write_json(path, changed)


def settle_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a new run, or check that a resumed run keeps the protocol it began with."""
    manifest = json.loads(json.dumps(manifest))
    if not path.exists():
        write_json(path, manifest)
        return
    before = read_manifest(path)
    differing = [key for key, value in manifest["protocol"].items() if before["protocol"].get(key) != value]
    if differing:
        changes = ", ".join(
            f"{key} was {before['protocol'].get(key)} and is {manifest['protocol'][key]}" for key in differing
        )
        raise ValueError(f"{path.parent} was begun under another protocol: {changes}; delete the folder to start again")


def write_json(path: Path, content: Any) -> None:
    """Write a file of a run folder: completely or not at all."""
    write_whole(path, json.dumps(content, indent=1).encode())


def forget_inputs() -> None:
    """Read weights and data again at the next check or run: they may have changed since."""
    _inputs_of.cache_clear()
    forget_data()


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a run."""
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); {AGAIN}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("protocol"), dict):
        raise ValueError(f"{path} is not a manifest; {AGAIN}")
    return manifest


@lru_cache(maxsize=8)  # the recipes of one stream are checked one after the other
def _inputs_of(model: Spec, stream: Spec, data: Spec, seed: int) -> tuple[str | None, str | None]:
    """Return the digest of the weights and the spec of the stream as JSON; None if they cannot be read."""
    try:
        network = network_for(model.build(MODELS), data)
        weights = weights_digest(network)
        return weights, json.dumps(build_stream(stream, data, seed, network).spec, sort_keys=True)
    except (ValueError, RuntimeError, OSError, ImportError, TypeError):
        return None, None
