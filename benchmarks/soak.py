"""A long run of every recipe on a tiny network: does memory stay flat?

    python benchmarks/soak.py [--batches 100000] [--recipe tent --recipe eata …]

Prints the resident memory at 1 %, 10 %, 50 % and 100 % of the batches, each recipe in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.recipes import adapt, recipe_names

MARKS = (0.01, 0.1, 0.5, 1.0)
TOLERANCE_MB = 8  # what allocators keep for themselves


OPTIONS = {"cotta": {"views": 1}, "slr": {"frozen_layers": None}}  # what is dear, and what needs a deeper network


class Tiny(nn.Module):
    """One normalised layer on 4×4 images: as small as a network with BatchNorm gets."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.bn(self.conv(inputs)).relu().mean((2, 3)))


def soak(job: tuple[str, int]) -> tuple[str, list[float]]:
    """Return the resident megabytes of one recipe at each mark."""
    name, batches = job
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    pool = torch.rand(64, 4, 3, 4, 4, generator=generator)
    model = adapt(Tiny().eval(), name, source=list(pool[:4]), example=pool[0], **OPTIONS.get(name, {}))
    marks = {int(share * batches) for share in MARKS}
    found = []
    for batch in range(1, batches + 1):
        model(pool[batch % len(pool)])
        if batch in marks:
            found.append(resident_mb())
    return name, found


def resident_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    """Run and print; a recipe whose memory grows from the second mark on is named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--recipe", action="append")
    options = parser.parse_args()
    jobs = [(name, options.batches) for name in options.recipe or recipe_names()]
    grown = []
    print(f"{'recipe':16}" + "".join(f"{f'{share:.0%}':>10}" for share in MARKS) + "   resident MB")
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        for name, found in pool.imap_unordered(soak, jobs):
            print(f"{name:16}" + "".join(f"{value:10.1f}" for value in found), flush=True)
            if found[-1] - found[1] > TOLERANCE_MB:
                grown.append(name)
    print("memory grows: " + ", ".join(grown) if grown else "memory is flat for every recipe")


if __name__ == "__main__":
    main()
