"""Measure whether memory and time of a step stay constant in a long run of every recipe on a tiny network.

    python benchmarks/soak.py [--batches 100000] [--recipe tent --recipe eata …] [--cross]

Figures are the resident memory at 1 %, 10 %, 50 % and 100 % of the batches, its growth from the second of them, and the
median time of a step in the last tenth over that in the first, each recipe in its own process. Inputs are repeated
batches of noise; with `--cross` they come from an endless stream with Markov classes along a CCC walk, and the default
recipes are those that keep statistics per domain.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measured import run
from torch import Tensor, nn

from holdfast.data import InMemoryImages
from holdfast.model.adapt import adapt
from holdfast.recipes import recipe_names
from holdfast.streams import Calibration, Chain, CrossPlan, Stream, Transition, Walk

MARKS = (0.01, 0.1, 0.5, 1.0)
BY_DOMAIN = ("bdn", "unitta", "unitta_auto")
WALKED = ("brightness", "contrast", "gaussian_noise", "brightness")  # fast corruptions
OPTIONS = {"cotta": {"views": 1}, "slr": {"frozen_layers": None}}  # cheaper; fits a shallow network


class Tiny(nn.Module):
    """A minimal network with BatchNorm, for 4×4 images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.bn(self.conv(inputs)).relu().mean((2, 3)))


def soak(job: tuple[str, int, bool]) -> tuple[str, dict[str, float]]:
    """Return the resident megabytes of one recipe at each mark, its growth, and the change of the time of a step."""
    name, batches, cross = job
    torch.set_num_threads(1)
    torch.manual_seed(0)  # for the weights
    generator = torch.Generator().manual_seed(0)
    pool = torch.rand(64, 4, 3, 4, 4, generator=generator)
    model = adapt(Tiny().eval(), name, source=list(pool[:4]), example=pool[0], **OPTIONS.get(name, {}))
    marks = {int(share * batches): f"resident_mb_at_{share:.0%}" for share in MARKS}
    memory: dict[str, float] = {}
    seconds = np.empty(batches)
    inputs = cross_inputs() if cross else cycle(pool)
    for batch, given in enumerate(islice(inputs, batches), start=1):
        start = time.process_time()
        model(given)
        seconds[batch - 1] = time.process_time() - start
        if batch in marks:
            memory[marks[batch]] = resident_mb()
    _, settled, _, last = memory.values()
    tenth = batches // 10
    change = float(np.median(seconds[-tenth:]) / np.median(seconds[:tenth]))
    return name, {**memory, "growth_mb": last - settled, "last_tenth_of_first": change}


def cross_inputs() -> Iterator[Tensor]:
    """Yield endless batches: three Markov classes, corrupted along a periodic walk."""
    rng = np.random.default_rng(0)
    data = InMemoryImages(rng.integers(0, 256, (60, 4, 4, 3), np.uint8), np.arange(60) % 3)
    path = tuple((20 - (step + 1) // 2, step // 2) for step in range(41))  # one fades out while the other fades in
    transitions = tuple(Transition(*pair, path, (50.0,) * len(path)) for pair in pairwise(WALKED))
    walk = Walk(Calibration(transitions, 50.0), len(data.labels), images_per_step=100)
    stream = Stream(CrossPlan(walk, data.labels, Chain(size=3, stay=0.95)), data)
    return (batch.inputs for batch in stream.starting_at(batch_size=4))


def resident_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return memory and time of each recipe."""
    batches = 500 if options.quick else options.batches
    names = options.recipe or (BY_DOMAIN if options.cross else recipe_names())
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return {"batches": batches, **dict(pool.imap(soak, [(name, batches, options.cross) for name in names]))}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--recipe", action="append")
    parser.add_argument("--cross", action="store_true")
    run(parser, measure)


if __name__ == "__main__":
    main()
