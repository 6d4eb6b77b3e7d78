"""Replay what a service really served: its stored inputs through other methods and recoveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from holdfast.machine.devices import Placement
from holdfast.model.adapt import adapt
from holdfast.models import MODELS
from holdfast.options.spec import Spec
from holdfast.recovery import RECOVERIES
from holdfast.serve.audit import read_audit, verify_audit
from holdfast.serve.build import building_of, held_out
from holdfast.serve.state_folder import audit_logs, check_weights
from holdfast.serve.stored_inputs import read_stored
from holdfast.serve.tenants import Tenants

MOST_TENANTS = 1_000_000


@dataclass(frozen=True)
class ServedBatch:
    """One batch as it was served: where its inputs are, what was predicted, and labels by position in the batch."""

    tenant: str
    folder: Path
    inputs: str
    classes: tuple[int, ...]
    labels: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class ServedAgain:
    """What one method and recovery would have predicted; shares in %, accuracy on the labelled samples only."""

    name: str
    samples: int
    labelled: int
    accuracy: float | None
    as_served: float  # share of samples with the class that was served
    resets: int
    reasons: tuple[str, ...] = ()  # of the resets


def is_served(target: str | Path) -> bool:
    """Return whether a path is the state folder of a service."""
    return Path(target).is_dir() and bool(audit_logs(Path(target)))


def served_model(folder: Path) -> Spec:
    """Return the model that was served."""
    return Spec.parse(building_of(audit_logs(folder)[0].parent)["model"])


def read_served(folder: Path, *, tenant: str | None = None) -> list[ServedBatch]:
    """Return the batches of a service in the order in which they were served, with the labels that came back."""
    batches: list[ServedBatch] = []
    for path in audit_logs(folder):
        problem = verify_audit(path).problem
        if problem is not None:
            raise ValueError(f"{path} is not intact ({problem}); replay needs the log as it was written")
        decisions = list(read_audit(path, tenant=tenant))
        labels = {(one.tenant, one.run, one.sample): one.label for one in decisions if one.label is not None}
        for one in decisions:
            if one.kind == "batch" and one.inputs:
                first = 0 if one.first is None else one.first
                labelled = {
                    position: labels.get((one.tenant, one.run, first + position)) for position in range(one.samples)
                }
                known = tuple((position, label) for position, label in labelled.items() if label is not None)
                batches.append(ServedBatch(one.tenant, path.parent, one.inputs, one.classes, known))
    if not batches:
        whose = "" if tenant is None else f" of tenant {tenant}"
        raise ValueError(f"{folder} has no stored inputs{whose}; serve with --store-inputs to keep them")
    return batches


def replay_served(
    folder: Path,
    *,
    methods: Sequence[str] = (),
    recoveries: Sequence[str | Spec] = (),
    tenant: str | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> list[ServedAgain]:
    """Run stored inputs through the source, each method, and the served method with each recovery (default: all).

    Every tenant starts from the source and has a state of its own. Resets and freezes that someone asked for are not
    repeated, and nothing is guarded.
    """
    batches = read_served(folder, tenant=tenant)
    building = building_of(audit_logs(folder)[0].parent)
    network: nn.Module = Spec.parse(building["model"]).build(MODELS).eval()
    for path in audit_logs(folder):
        check_weights(path.parent, network)
    shown = None if building["holdout"] is None else held_out(Spec.parse(building["holdout"]))
    source = None if shown is None else [inputs for inputs, _ in shown]
    fitting = {"source": source, "holdout": shown, "card": building.get("card")}
    placement = Placement(memory_format=building.get("memory_format", "contiguous"))
    method, options = str(building["method"]), dict(building["options"] or {})
    runs: list[tuple[str, dict[str, Any]]] = [("source", {"method": "source"})]
    runs += [(name, {"method": name, **fitting}) for name in methods]
    parsed = [Spec.parse(one) for one in recoveries or ([] if methods else RECOVERIES.names())]
    for one in parsed:
        recovering = {"recovery": one.name, "recovery_options": dict(one.options)}
        values = ", ".join(f"{option}={value}" for option, value in one.options.items())
        name = f"{method} + {one.name}" + (f"({values})" if values else "")
        runs.append((name, {"method": method, **options, **recovering, **fitting}))
    results = [_compared("as served", batches, [np.array(batch.classes) for batch in batches], ())]
    for name, given in runs:
        announce(name)
        tenants = Tenants(adapt(network, **given), limit=MOST_TENANTS)
        stored = ((batch.tenant, read_stored(batch.folder, batch.inputs)) for batch in batches)
        steps = [tenants.step(whose, placement.lay_out(inputs)) for whose, inputs in stored]
        classes = [step.logits.argmax(1).numpy() for step in steps]
        results.append(_compared(name, batches, classes, [step.recovered for step in steps if step.recovered]))
    return results


def _compared(name: str, batches: Sequence[ServedBatch], classes: Sequence[Any], resets: Iterable[str]) -> ServedAgain:
    right = [
        int(new[position]) == label for new, one in zip(classes, batches, strict=True) for position, label in one.labels
    ]
    same = np.concatenate([new == np.array(one.classes) for new, one in zip(classes, batches, strict=True)])
    reasons = tuple(resets)
    return ServedAgain(
        name=name,
        samples=len(same),
        labelled=len(right),
        accuracy=100 * sum(right) / len(right) if right else None,
        as_served=100 * float(same.mean()),
        resets=len(reasons),
        reasons=reasons,
    )
