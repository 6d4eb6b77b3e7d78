"""Train a network as `holdfast train` does and record its accuracy and the time.

    python benchmarks/training.py cifar10 --model cifar_resnet20 --json results/training-cifar10.json

Training uses one core, and data sets with splits. The network is written to `--out`, beside a description of how it was
made.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from measured import add_json, write

from holdfast.data import DATASETS
from holdfast.options.spec import Spec
from holdfast.training import save_weights, train


def main() -> None:
    """Train, and write accuracy, seconds and digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a data set by name, or YAML")
    parser.add_argument("--model", required=True)
    parser.add_argument("--epochs", type=int, help="by default as many as the procedure has")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("weights"))
    add_json(parser)
    given = parser.parse_args()

    def tell(done: int, total: int, loss: float) -> None:
        print(f"{done} of {total} epochs, loss {loss:.3f}, {time.perf_counter() - start:.0f} s", flush=True)

    start = time.perf_counter()
    result = train(given.model, given.data, epochs=given.epochs, seed=given.seed, progress=tell)
    seconds = time.perf_counter() - start
    path = save_weights(result, given.out)
    facts = json.loads(path.with_suffix(".json").read_text())
    digest = Spec.parse(given.data).build(DATASETS, split="train").digest
    print(f"{facts['accuracy']} after {result.epochs} epochs, {seconds / 60:.0f} minutes on one core")
    write(given.json, {**facts, "data_digest": digest, "seconds": round(seconds)})


if __name__ == "__main__":
    main()
