"""Check that memory stays constant in a long run of every recipe on a tiny network.

    python benchmarks/soak.py [--batches 100000] [--recipe tent --recipe eata …] [--cross]

Prints the resident memory at 1 %, 10 %, 50 % and 100 % of the batches, each recipe in its own process. Inputs are
repeated batches of noise; with `--cross` they come from an endless stream with Markov classes along a CCC walk, and the
default recipes are those that keep statistics per domain.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator
from itertools import cycle, islice, pairwise
from pathlib import Path

import numpy as np
import torch
from measured import add_json, write
from torch import Tensor, nn

from holdfast.data import InMemoryImages
from holdfast.model.adapt import adapt
from holdfast.recipes import recipe_names
from holdfast.streams import Calibration, Chain, CrossPlan, Stream, Transition, Walk

MARKS = (0.01, 0.1, 0.5, 1.0)
TOLERANCE_MB = 8  # overhead of allocators


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


def soak(job: tuple[str, int, bool]) -> tuple[str, list[float]]:
    """Return the resident megabytes of one recipe at each mark."""
    name, batches, cross = job
    torch.set_num_threads(1)
    torch.manual_seed(0)  # for the weights
    generator = torch.Generator().manual_seed(0)
    pool = torch.rand(64, 4, 3, 4, 4, generator=generator)
    model = adapt(Tiny().eval(), name, source=list(pool[:4]), example=pool[0], **OPTIONS.get(name, {}))
    marks = {int(share * batches) for share in MARKS}
    megabytes = []
    inputs = cross_inputs() if cross else cycle(pool)
    for batch, given in enumerate(islice(inputs, batches), start=1):
        model(given)
        if batch in marks:
            megabytes.append(resident_mb())
    return name, megabytes


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


def main() -> None:
    """Run and print; name every recipe whose memory grows after the second mark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--recipe", action="append")
    parser.add_argument("--cross", action="store_true")
    add_json(parser)
    options = parser.parse_args()
    names = options.recipe or (BY_DOMAIN if options.cross else recipe_names())
    jobs = [(name, options.batches, options.cross) for name in names]
    grown, measured = [], {}
    print(f"{'recipe':16}" + "".join(f"{f'{share:.0%}':>10}" for share in MARKS) + "   resident MB")
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        for name, megabytes in pool.imap_unordered(soak, jobs):
            print(f"{name:16}" + "".join(f"{value:10.1f}" for value in megabytes), flush=True)
            measured[name] = megabytes
            if megabytes[-1] - megabytes[1] > TOLERANCE_MB:
                grown.append(name)
    print("memory grows: " + ", ".join(grown) if grown else "memory stays constant for every recipe")
    write(options.json, {"batches": options.batches, "resident_mb": measured, "marks": list(MARKS), "grown": grown})


if __name__ == "__main__":
    main()
