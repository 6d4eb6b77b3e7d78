"""Build a service from plain values: here, or in a replica on another machine."""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs
from holdfast.machine.devices import MemoryFormat
from holdfast.machine.folders import write_whole
from holdfast.models import MODELS
from holdfast.models.classifier import Classifier
from holdfast.models.memory_format import faster_format
from holdfast.options.spec import Spec
from holdfast.randomness import seeded_rng
from holdfast.records import SetupWarning
from holdfast.serve.class_names import class_names, read_class_names
from holdfast.serve.limits import Limits
from holdfast.serve.service import Service
from holdfast.serve.state_folder import private
from holdfast.serve.tenants import Tenants

if TYPE_CHECKING:
    from holdfast.connect.otel import Telemetry

LOG = logging.getLogger(__name__)
BUILDING = "building.json"  # in the state folder: the options that the service was built with
HELD_OUT = 512  # samples
BATCH = 64
TRIED = 8  # samples, to choose a memory format
DEFAULTS: Mapping[str, Any] = MappingProxyType(  # of the options of the command
    {"method": "auto", "guarded": True, "options": None, "holdout": None, "budget": 0.02, "clean_accuracy": None}
    | {"batch": 64, "wait": 0.01, "store_inputs": False, "memory_format": "auto"}
)


def build_service(
    building: Mapping[str, Any], *, folder: Path | None, limits: Limits, head: Path | None = None
) -> Service:
    """Return a service that is not started.

    `building` has the options of the command by name; `head` is the file for the head of the audit log. A `card` that
    belongs to a network with other weights is refused.
    """
    given = {**DEFAULTS, **building}
    network = Spec.parse(given.pop("model")).build(MODELS).eval()
    holdout = given.pop("holdout")
    data = None if holdout is None else Spec.parse(holdout).build(DATASETS)
    shown = None if data is None else _batches_of(data)
    named = given.pop("classes", None)
    serving = {name: given.pop(name) for name in ("batch", "wait", "store_inputs")}
    chosen = given.pop("memory_format")
    telemetry = _telemetry() if given.pop("otel", False) else None
    guarding = {name: given.pop(name) for name in ("budget", "clean_accuracy")}
    if given["guarded"]:
        given.update(guarding)
    source = None if shown is None else [inputs for inputs, _ in shown]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*has no source samples", SetupWarning)  # the service says so itself
        tenants = Tenants(
            network, folder=folder, head=head, limit=limits.tenants, source=source, holdout=shown, **given
        )
    served = tenants.model.method.model
    serving["memory_format"] = memory_format = _memory_format(served) if chosen == "auto" else chosen
    if folder is not None:
        _say_if_other_samples(folder, building, tenants.names())
        written = {**DEFAULTS, **building, "memory_format": memory_format}
        write_whole(folder / BUILDING, json.dumps(written, indent=1, default=str).encode())
        private(folder / BUILDING)
    classes = served.num_classes
    names = class_names(network, data, classes) if named is None else read_class_names(Path(named), classes)
    fitted = {
        name: building.get(name) for name in ("holdout", "card", "clean_accuracy") if building.get(name) is not None
    }
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Spec.parse(building["model"]).name)
    return Service(tenants, limits=limits, name=name, names=names, given=fitted, telemetry=telemetry, **serving)


def _memory_format(network: Classifier) -> MemoryFormat:
    """Return the format of images in which a network is faster; other inputs have one format only."""
    if network.input_spec.kind != "image":
        return "contiguous"
    return faster_format(network.module, network.trial_inputs(TRIED))


def _telemetry() -> Telemetry:
    from holdfast.connect.otel import Telemetry

    return Telemetry.to_collector()


def _say_if_other_samples(folder: Path, building: Mapping[str, Any], tenants: list[str]) -> None:
    """Log that restored tenants keep the source samples that they began with: states are restored exactly."""
    before = dict(building)
    with suppress(ValueError):  # there is none, or it is damaged: it is written anew
        before = building_of(folder)
    if tenants and any(before.get(name) != building.get(name) for name in ("holdout", "card")):
        LOG.warning(
            "the %d tenants in %s keep the source samples that they began with; use another --state to begin anew",
            len(tenants),
            folder,
        )


def building_of(folder: Path) -> dict[str, Any]:
    """Return the options of the service that wrote a state folder."""
    path = folder / BUILDING
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read, so it is not known what was served ({error})") from error


def held_out(data: Spec) -> list[tuple[Tensor, Tensor]]:
    """Return samples of a data set in batches, with labels."""
    return _batches_of(data.build(DATASETS))


def _batches_of(dataset: Any) -> list[tuple[Tensor, Tensor]]:
    order = seeded_rng(0, "serve").permutation(len(dataset.labels))[:HELD_OUT].astype(np.int64)
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    labels = np.asarray(dataset.labels)
    return [(as_inputs(dataset.inputs(chosen)), torch.from_numpy(labels[chosen])) for chosen in batches]
