"""Measure the cost of estimators: extra time per batch as a multiple of a bare forward pass, on one thread.

    python benchmarks/estimators.py [--weights resnet20_cifar10.safetensors] [--rounds 9] [--json FILE]

Steps with and without estimators alternate batch by batch, and only ratios are reported, because absolute times are not
comparable on a shared machine. The method is `batch_norm`, which has no update, to isolate the cost of the estimators.
"""

from __future__ import annotations

import argparse
import runpy
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch
from measured import run
from torch import Tensor

from holdfast.estimators import Estimator
from holdfast.estimators.adv_perturb import AdvPerturb
from holdfast.estimators.aetta import Aetta
from holdfast.estimators.anchored import Anchored
from holdfast.estimators.gde import Gde
from holdfast.estimators.pdd import Pdd
from holdfast.estimators.softmax_score import SoftmaxScore
from holdfast.estimators.source_validation import SourceValidation
from holdfast.model.adapt import adapt
from holdfast.models.cifar_resnet import CifarResNet

STEP_COST = runpy.run_path(str(Path(__file__).with_name("step_cost.py")))
GOLDEN, inputs, seconds = STEP_COST["GOLDEN"], STEP_COST["inputs"], STEP_COST["seconds"]
BATCH_SIZE, HOLDOUT = 64, 1000


def line_up() -> dict[str, list[Estimator]]:
    """Return the estimators to measure, alone and together."""
    alone: dict[str, list[Estimator]] = {
        "softmax_score": [SoftmaxScore()],
        "gde": [Gde()],
        "anchored": [Anchored(compare_every=0)],
        "anchored, compares": [Anchored(compare_every=1)],
        "adv_perturb": [AdvPerturb()],
        "aetta": [Aetta()],
        "pdd": [Pdd()],
        "aetta, features": [Aetta(points="features")],
        "source_validation": [SourceValidation(samples=HOLDOUT)],
    }
    return {**alone, "together": together("stages"), "together, features": together("features")}


def together(points: Literal["stages", "features"]) -> list[Estimator]:
    """Return one estimator of each kind, to run together."""
    dropout = [Aetta(points=points), Pdd(points=points)]
    return [SoftmaxScore(), Gde(), Anchored(), AdvPerturb(), *dropout, SourceValidation(samples=HOLDOUT)]


def figures(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return the cost of each line-up, and how much those together cost beside the most expensive one alone."""
    torch.set_num_threads(1)
    network = CifarResNet.from_file(options.weights) if options.weights.exists() else CifarResNet().eval()
    chosen = {label: several for label, several in line_up().items() if label in (options.estimator or line_up())}
    rounds = 4 if options.quick else options.rounds
    costs = measure(network, list(inputs(rounds * BATCH_SIZE).split(BATCH_SIZE)), chosen)
    if {"anchored", "anchored, compares"} <= {*costs}:
        every = Anchored().compare_every
        costs["anchored, default"] = costs["anchored"] + (costs["anchored, compares"] - costs["anchored"]) / every
    highest = max((cost for label, cost in costs.items() if not label.startswith("together")), default=None)
    return {
        label: {"extra_forwards": cost, **({"of_dearest": cost / highest} if highest and "together" in label else {})}
        for label, cost in costs.items()
    }


def measure(
    network: CifarResNet, batches: Sequence[Tensor], estimators: Mapping[str, Sequence[Estimator]]
) -> dict[str, float]:
    """Return for each line-up the median of (its step − the bare step) / a bare forward pass."""
    holdout = [(inputs(HOLDOUT), torch.zeros(HOLDOUT, dtype=torch.long))]
    bare = adapt(network, "batch_norm")
    watched = {
        label: adapt(network, "batch_norm", estimator=several, holdout=holdout) for label, several in estimators.items()
    }

    def forward(batch: Tensor) -> None:
        with torch.no_grad():
            network(batch)

    ratios: dict[str, list[float]] = {label: [] for label in watched}
    for round_, batch in enumerate(batches):
        for label, model in watched.items():
            once, without, cost, again = (seconds(call, batch) for call in (forward, bare, model, bare))
            if round_ >= 2:  # the first batches include allocations
                ratios[label].append((cost - (without + again) / 2) / once)
    return {label: statistics.median(values) for label, values in ratios.items()}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", type=Path, default=GOLDEN / "resnet20_cifar10.safetensors")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--estimator", action="append", help="measure only this line; may be repeated")
    run(parser, figures)


if __name__ == "__main__":
    main()
