"""The manifest: everything that determines the numbers of a run, kept beside its rows."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from datetime import date
from typing import Any

import numpy as np
import torch

import holdfast
from holdfast.benchmark.building import Built
from holdfast.benchmark.job import Job
from holdfast.calibration.matrices import own_settings
from holdfast.data import DATASETS
from holdfast.machine.folders import commit_of
from holdfast.methods import METHODS
from holdfast.models import preprocessing_of
from holdfast.recipes import RECIPES
from holdfast.registry import describe
from holdfast.streams import Calibration

SCHEMA = 1
PROTOCOLS = {
    "online": "online",
    "online-timed": "online-timed",
    "offline-fixed": "offline-fixed",
    "offline-oracle": "offline-oracle (labels chose the epoch)",
}


def make_manifest(job: Job, built: Built) -> dict[str, Any]:
    """Return everything that determines the numbers of a run, and a fingerprint of its protocol."""
    model, stream, material = built.model, built.stream, material_of(built)
    recipe = model.recipe
    protocol: dict[str, Any] = {
        "stream": stream.protocol,
        "samples": job.samples,
        "protocol": PROTOCOLS[job.protocol],
        "epochs": None if job.is_online else job.epochs,
        "seed": job.seed,
        "model": job.model.label,
        "weights": model.weights,
        "preprocessing": stream.preprocessing,
        "batch_size": job.batch_size,
        "order": f"predicts {model.method.predicts if job.is_online else 'after'} its update",
        "recovery": _call(recipe["recovery"], recipe["recovery_options"]),
        **built.seen,
        "metric": "accuracy, every sample weighs the same",
        "threads": torch.get_num_threads(),
        "versions": {
            "holdfast": holdfast.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
    protocol |= job.placement.described | job.scripts
    if job.protocol == "online-timed":
        protocol |= {"speed": job.speed, "cost": "passes, as counted" if job.cost is None else job.cost}
    own = job.recipe_imports
    shared = [file for file in job.imports if file not in own]
    # Other code may give other numbers under the same name.
    protocol |= {
        field: {file.name: file.digest for file in files}
        for field, files in (("imports", shared), ("recipe_imports", own))
        if files
    }
    classifier = model.method.model
    prepared = preprocessing_of(classifier)
    if prepared is not None:  # of the zoo that the network comes from
        protocol["model_preprocessing"] = prepared.to_dict()
    entry = describe(recipe["name"], (RECIPES if recipe["name"] in RECIPES else METHODS)[recipe["name"]])
    return {
        "schema": SCHEMA,
        "suite": job.suite,
        "job": job.name,
        "place": job.index,
        "averages": {name: list(labels) for name, labels in job.averages.items()},
        "asked": job.to_json(),
        "resolved": resolved_names(job),
        "material": material,
        "recipe": {
            **recipe,
            "label": job.recipe.label,
            "citation": entry.citation,
            "summary": entry.summary,
            **({"code": ", ".join(f"{file.name} {file.digest[:8]}" for file in own)} if own else {}),
        },
        "model": {
            "name": job.model.label,
            "parameters": material["weights"]["parameters"],
            "normalisation": classifier.normalisation,
        },
        "stream": {
            "name": job.stream.name,
            "label": job.stream.label,
            "domains": list(stream.domains),
            "length": built.total,
            "spec": stream.spec,
        },
        "seed": job.seed,
        "commit": commit_of(),  # beside the protocol: equal numbers come from different commits and machines too
        "made": {"date": date.today().isoformat(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"},
        "protocol": protocol,
        "fingerprint": hashlib.blake2b(json.dumps(protocol, sort_keys=True).encode(), digest_size=8).hexdigest(),
    }


def resolved_names(job: Job) -> dict[str, Any]:
    """Return what names in a job stand for, so that a report can compare it with published ones from files alone."""
    name = DATASETS.name_of(DATASETS[job.data.name])
    aliases = [alias for alias, known in DATASETS.aliases.items() if known == name]
    return {"data_names": list(dict.fromkeys([job.data.name, name, *aliases])), "preset_epochs": job.resolved.epochs}


def material_of(built: Built) -> dict[str, Any]:
    """Return sizes and digests of the data and the weights, and how a walk was calibrated, whatever their files' names.

    A calibration without a model comes from matrices that were measured elsewhere; `own` are settings of it that are
    not CCC's.
    """
    classifier, stream = built.model.method.model, built.stream
    material: dict[str, Any] = {
        "data": {
            "samples": len(stream.data.labels),
            "classes": len(stream.data.class_names),
            "digest": stream.data.digest,
        },
        "weights": {
            "parameters": sum(parameter.numel() for parameter in classifier.parameters()),
            "digest": built.model.weights,
        },
    }
    calibration = getattr(stream.plan, "calibration", None)
    if isinstance(calibration, Calibration):
        measured = [len(entry.measured) for entry in calibration.transitions]
        images = [entry.pictures for entry in calibration.transitions if entry.pictures is not None]
        material["calibration"] = {
            "imported": not calibration.model,
            "target_percent": calibration.target_percent,
            "images": min(images, default=None),
            "points": min(measured),
            "own": own_settings(calibration, stream.plan.seed),
        }
    return material


def _call(name: str, options: dict[str, Any]) -> str:
    """Return a recovery with its options; a full reset, the only one that there was once, goes without saying."""
    said = [f"{key}={value}" for key, value in options.items() if (key, value) != ("scope", "full")]
    return f"{name}({', '.join(said)})" if said else name
