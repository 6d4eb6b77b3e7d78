"""What a step costs: each recipe's time per batch as a multiple of a bare forward, on one thread, in one run.

    python benchmarks/step_cost.py [--weights resnet20_cifar10.safetensors] [--rounds 15] [--json]

Absolute times mean nothing on a shared machine: recipes are interleaved batch by batch, and ratios are taken. Without
weights the CIFAR ResNet-20 has random ones, which cost the same except where a filter selects samples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.models.cifar_resnet import CifarResNet
from holdfast.recipes import adapt

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden"
ETA = {"optimizer": "sgd", "lr": 5e-3, "momentum": 0.9, "redundancy_margin": 0.4}

# label -> (recipe, options, the official code's cost where the specification has one)
RECIPES: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "source": ("source", {}, 1.02),
    "batch_norm": ("batch_norm", {}, 1.29),
    "batch_norm, prior 16": ("batch_norm", {"prior_samples": 16}, 1.37),
    "batch_norm, cumulative": ("batch_norm", {"cumulative": True}, 1.38),
    "tent": ("tent", {"optimizer": "adam", "lr": 1e-3}, 2.81),
    "tent, SGD": ("tent", {"optimizer": "sgd", "lr": 2.5e-4}, 2.75),
    "eta": ("eta", ETA, 2.57),
    "eata": ("eata", {**ETA, "fisher_weight": 2000.0}, 2.77),
    "rdumb": ("rdumb", ETA, 2.49),
}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", type=Path, default=GOLDEN / "resnet20_cifar10.safetensors")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    network = CifarResNet.from_file(options.weights) if options.weights.exists() else CifarResNet().eval()
    batches = list(inputs(options.rounds * options.batch_size).split(options.batch_size))
    costs = measure(network, batches)
    if options.json:
        print(json.dumps(costs))
        return
    print(f"{'recipe':24} {'× forward':>9} {'official':>9}")
    for label, cost in costs.items():
        official = RECIPES[label][2]
        print(f"{label:24} {cost:9.2f} {official if official is not None else '–':>9}")


def inputs(samples: int) -> Tensor:
    """Return the golden stream where it is, and uniform noise elsewhere."""
    path = GOLDEN / "stream.npz"
    if not path.exists():
        return torch.rand(samples, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with np.load(path) as file:
        images = torch.from_numpy(file["iid_x"]).permute(0, 3, 1, 2).contiguous().float() / 255
    return images.repeat(-(-samples // len(images)), 1, 1, 1)[:samples]


def measure(network: CifarResNet, batches: list[Tensor]) -> dict[str, float]:
    """Return each recipe's median of (its time / the mean of the bare forwards before and after it)."""
    models = {
        label: adapt(network, recipe, source=batches[:4] if recipe == "eata" else None, **keywords)
        for label, (recipe, keywords, _) in RECIPES.items()
    }

    def forward(batch: Tensor) -> None:
        with torch.no_grad():
            network(batch)

    ratios: dict[str, list[float]] = {label: [] for label in models}
    for round_, batch in enumerate(batches):
        for label, model in models.items():
            before, cost, after = (seconds(call, batch) for call in (forward, model, forward))
            if round_ >= 2:  # the first batches pay for allocations
                ratios[label].append(2 * cost / (before + after))
    return {label: statistics.median(values) for label, values in ratios.items()}


def seconds(call: Callable[[Tensor], Any], batch: Tensor) -> float:
    """Return the processor time of one call: another program's share of the core is not ours."""
    began = time.process_time()
    call(batch)
    return time.process_time() - began


if __name__ == "__main__":
    main()
