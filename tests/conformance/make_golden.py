"""Cut the golden folder down to the shipped part: the first batches of each stream and trace, and the network.

    python tests/conformance/make_golden.py PATH_OF_THE_WHOLE_FOLDER

Twins of other traces are left out.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

from holdfast.conformance import CASES, Case
from holdfast.conformance.case import recorded_arrays

BATCHES = {"iid": 4, "cor": 1}  # EATA sees the first 256 inputs before the first batch
BATCH_SIZE = 64
OUT = Path(__file__).parent / "golden"
FACTS = ("method", "implementation", "source", "suggested_atol", "hyperparameters")


def main(golden: Path) -> None:
    """Replace the shipped folder."""
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "traces").mkdir(parents=True)
    shutil.copy(golden / "resnet20_cifar10.safetensors", OUT)
    with np.load(golden / "stream.npz") as file:
        arrays = {f"{name}_{kind}": file[f"{name}_{kind}"][: count(name)] for name in BATCHES for kind in "xy"}
    np.savez_compressed(OUT / "stream.npz", **arrays)
    for case in CASES:
        if not case.twin:
            cut(case, golden / "traces")
    size = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file())
    print(f"{len(list((OUT / 'traces').glob('*.npz')))} traces, {size / 1e6:.2f} MB")


def cut(case: Case, traces: Path) -> None:
    """Write the first predictions of one trace, in double precision if recorded, and what else its case compares."""
    trace, array = case.trace, case.array
    double = traces / f"{trace}_f64.npz"
    file = recorded_arrays(traces, trace)
    kept = {f"{name}_{array}": file[f"{name}_{array}"][: count(name)] for name in BATCHES}
    for name, batches in BATCHES.items():
        others = {f"mem_{name}": batches, f"{name}_num_domains": batches, f"{name}_domain_pred": count(name)}
        others |= {f"{name}_{key}": batches for key in (*case.decisions, *case.totals, "mem", "perm")}
        kept |= {key: file[key][:length] for key, length in others.items() if key in file}
        wanted = {key for own in case.inputs_of for key in (own, f"{name}_{own}")} - set(kept)
        kept |= {key: file[key] for key in wanted if key in file}
    np.savez_compressed(OUT / "traces" / (double.name if double.exists() else f"{trace}.npz"), **kept)
    facts = json.loads((traces / f"{trace}.json").read_text())
    short = {key: facts[key] for key in FACTS if key in facts}
    (OUT / "traces" / f"{trace}.json").write_text(json.dumps(short, indent=1) + "\n")


def count(stream: str) -> int:
    """Return the number of shipped samples of a stream."""
    return BATCHES[stream] * BATCH_SIZE


if __name__ == "__main__":
    main(Path(sys.argv[1]))
