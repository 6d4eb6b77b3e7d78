"""The manifest: a number without its protocol is not printed."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

import holdfast
from holdfast.adapted import AdaptedModel
from holdfast.benchmark.suite import Job
from holdfast.methods import METHODS
from holdfast.recipes import RECIPES
from holdfast.streams import Stream

__all__ = ["SCHEMA", "make_manifest"]

SCHEMA = 1
PROTOCOLS = {
    "online": "online",
    "offline-fixed": "offline-fixed",
    "offline-oracle": "offline-oracle (labels chose the epoch)",
}


def make_manifest(job: Job, model: AdaptedModel, stream: Stream, seen: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that determines the numbers of a run, and a fingerprint of its protocol.

    `seen` tells in words which source data the model was shown, by protocol field.
    """
    recipe = model.recipe
    protocol = {
        "stream": stream.protocol,
        "samples": job.samples,
        "protocol": PROTOCOLS[job.protocol],
        "epochs": None if job.protocol == "online" else job.epochs,
        "seed": job.seed,
        "model": job.model["label"],
        "weights": model.weights,
        "preprocessing": stream.preprocessing,
        "batch_size": job.batch_size,
        "order": f"predicts {model.method.predicts if job.protocol == 'online' else 'after'} its update",
        "recovery": _call(recipe["recovery"], recipe["recovery_options"]),
        **seen,
        "metric": "accuracy, every sample weighs the same",
        "threads": torch.get_num_threads(),
        "versions": {
            "holdfast": holdfast.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
    if "collapse" in job.stream:
        protocol["collapse"] = job.stream["collapse"]
    classifier = model.method.model
    entry = RECIPES if recipe["name"] in RECIPES else METHODS
    return {
        "schema": SCHEMA,
        "suite": job.suite,
        "job": job.name,
        "place": job.place,
        "averages": {name: list(labels) for name, labels in job.averages.items()},
        "asked": asdict(job),
        "recipe": {**recipe, "label": job.recipe["label"], "citation": getattr(entry[recipe["name"]], "citation", "")},
        "model": {
            "name": job.model["label"],
            "parameters": sum(parameter.numel() for parameter in classifier.parameters()),
            "normalisation": classifier.normalisation,
        },
        "stream": {
            "name": job.stream["name"],
            "label": job.stream["label"],
            "domains": list(stream.domains),
            "length": min(filter(None, (job.samples, stream.length)), default=None),
            "spec": stream.spec,
        },
        "seed": job.seed,
        "protocol": protocol,
        "fingerprint": hashlib.blake2b(json.dumps(protocol, sort_keys=True).encode(), digest_size=8).hexdigest(),
    }


def _call(name: str, options: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})" if options else name
