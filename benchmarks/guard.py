"""Measure what the guard promises: `python benchmarks/guard.py results/guard.json`.

Healthy streams: how often guard(tent) raises an alarm or undoes an update, and how often the recovery `regret` resets
TENT, in batches of 16. Decline and collapse: the accuracy of what the guard serves from batch 40 on, beside source,
anchor and TENT alone, with TENT at ten times its learning rate over 300 batches, and at a thousand times for 20
batches. On the embedded digits. Streams that are named are measured and added to what the file holds.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import holdfast
from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs
from holdfast.models import digits_resnet
from holdfast.streams import STREAMS

BATCH = 16
CORRUPTIONS = ["gaussian_noise", "brightness", "pixelate", "jpeg_compression"]
HEALTHY = {  # batches are i.i.d.: TENT is not worse than the source on any of them
    "clean": {"corruptions": ["clean"]},
    "mild": {"corruptions": CORRUPTIONS, "severity": 1},
    "severe": {"corruptions": CORRUPTIONS, "severity": 3},
}
SETTLED = 40  # batches


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("streams", nargs="*", default=[*HEALTHY, *FAILING])
    parser.add_argument("--healthy", type=int, default=1000, help="batches of each healthy stream")
    parser.add_argument("--failing", type=int, default=300, help="batches of each failing stream")
    options = parser.parse_args()
    torch.set_num_threads(1)
    streams = json.loads(options.result.read_text())["streams"] if options.result.exists() else {}
    for name in options.streams:
        streams[name] = healthy(name, options.healthy) if name in HEALTHY else failing(name, options.failing)
        print(name, streams[name], flush=True)
    manifest = {
        "network": "digits_resnet",
        "batch_size": BATCH,
        "guard": {"base": "tent", "options": "default", "source": "digits/validation"},
        "healthy": HEALTHY,
        "settled_batches": SETTLED,
        "seed": 0,
        "versions": {"holdfast": holdfast.__version__, "torch": torch.__version__},
        "python": platform.python_version(),
    }
    options.result.write_text(json.dumps({"manifest": manifest, "streams": streams}, indent=1) + "\n")
    print(f"Wrote {options.result}")


def batches(batches: int, **options: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of digits, all domains one after the other."""
    domains = len(options["corruptions"])
    stream = STREAMS["continual"](
        DATASETS["digits"]("test"), samples_per_domain=-(-batches * BATCH // domains), family="224", seed=0, **options
    )
    for batch in stream.starting_at(0, stop=batches * BATCH, batch_size=BATCH):
        yield batch.inputs, torch.from_numpy(batch.labels)


def source_samples() -> list[Tensor]:
    """Return unlabelled digits that no stream holds."""
    return list(as_inputs(DATASETS["digits"]("validation").images).split(64))


def healthy(name: str, count: int) -> dict[str, Any]:
    """Return the alarms and undone updates of the guard, and the resets by `regret`, on one healthy stream."""
    model = holdfast.adapt(digits_resnet(), "guard", base="tent", source=source_samples())
    regretting = holdfast.adapt(digits_resnet(), "tent", recovery="regret")
    resets = regrets = 0
    for inputs, _ in batches(count, **HEALTHY[name]):
        step = model.step(inputs)
        resets += step.recovered is not None
        regrets += regretting.step(inputs).recovered is not None
    counts = {"alarms": step.gauges["alarms"], "resets": resets, "undone": step.gauges["undone"]}
    return {"batches": count, **counts, "regrets": regrets}


FAILING: dict[str, Callable[[int], float]] = {  # factor of the learning rate at each batch
    "ten times the learning rate": lambda _: 10.0,
    "collapse": lambda position: 1000.0 if 20 <= position < 40 else 1.0,
}


def failing(name: str, count: int) -> dict[str, Any]:
    """Return the accuracy from batch 40 on of source, anchor, TENT and guard(tent), and what the guard did."""
    models = {
        "source": holdfast.adapt(digits_resnet(), "source"),
        "anchor": holdfast.adapt(digits_resnet(), "anchor", source=source_samples()),
        "tent": holdfast.adapt(digits_resnet(), "tent"),
        "guard(tent)": holdfast.adapt(digits_resnet(), "guard", base="tent", source=source_samples()),
    }
    right = dict.fromkeys(models, 0)
    for index, (inputs, labels) in enumerate(batches(count, **HEALTHY["severe"])):
        for label, model in models.items():
            model.method.scale_rates(FAILING[name](index))
            step = model.step(inputs)
            right[label] += int((step.logits.argmax(1) == labels).sum()) if index >= SETTLED else 0
    shares = {label: round(number / ((count - SETTLED) * BATCH), 4) for label, number in right.items()}
    return {"batches": count, "accuracy": shares, "guard": dict(step.gauges)}


if __name__ == "__main__":
    main()
