"""Cut the golden folder down to the shipped part: the first batches of each stream and trace, and the network.

    python tests/conformance/make_golden.py PATH_OF_THE_WHOLE_FOLDER [FOLDER_OF_TRACES]

Twins of other traces are left out. With a folder of traces, only its pack is cut anew.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

from holdfast.conformance import CASES, STREAMS, Case
from holdfast.conformance.case import recorded_arrays
from holdfast.conformance.pack import CIFAR, PACKS, Pack

BATCHES = {  # by folder of traces
    "traces": {"iid": 4, "cor": 1},  # EATA sees the first 256 inputs before the first batch
    "traces_ln": {"iid": 2, "cor": 1},
}
BATCH_SIZE = 64
OUT = Path(__file__).parent / "golden"
FACTS = ("method", "implementation", "source", "suggested_atol", "hyperparameters")


def main(golden: Path, only: str | None = None) -> None:
    """Replace the shipped folder, or one pack in it."""
    for pack in {pack.traces: pack for pack in PACKS if only in (None, pack.traces)}.values():
        shutil.rmtree(OUT / pack.traces, ignore_errors=True)
        (OUT / pack.traces).mkdir(parents=True)
        cut_stream(pack, golden)
        if pack is CIFAR:  # the other networks ship with the package
            shutil.copy(golden / "resnet20_cifar10.safetensors", OUT)
        for case in CASES:
            if case.pack.traces == pack.traces and not case.twin:
                cut(case, golden / pack.traces)
    size = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file())
    print(f"{len(list(OUT.glob('traces*/*.json')))} traces, {size / 1e6:.2f} MB")


def cut_stream(pack: Pack, golden: Path) -> None:
    """Write the first batches of both streams, and all source inputs that are not part of them."""
    with np.load(golden / pack.stream) as file:
        arrays = {f"{name}_{kind}": file[f"{name}_{kind}"][: count(pack, name)] for name in STREAMS for kind in "xy"}
        if pack.source not in STREAMS:
            arrays[f"{pack.source}_x"] = file[f"{pack.source}_x"][: pack.source_samples]
    np.savez_compressed(OUT / pack.stream, **arrays)


def cut(case: Case, traces: Path) -> None:
    """Write the first predictions of one trace, in double precision if recorded, and what else its case compares."""
    trace, array, pack = case.trace, case.array, case.pack
    double = traces / f"{trace}_f64.npz"
    file = recorded_arrays(traces, trace)
    kept = {f"{name}_{array}": file[f"{name}_{array}"][: count(pack, name)] for name in STREAMS}
    for name, batches in BATCHES[pack.traces].items():
        others = {f"mem_{name}": batches, f"{name}_num_domains": batches, f"{name}_domain_pred": count(pack, name)}
        others |= {f"{name}_{key}": batches for key in (*case.decisions, *case.totals, "mem", "perm")}
        kept |= {key: file[key][:length] for key, length in others.items() if key in file}
        wanted = {key for own in case.inputs_of for key in (own, f"{name}_{own}")} - set(kept)
        kept |= {key: file[key] for key in wanted if key in file}
    np.savez_compressed(OUT / pack.traces / (double.name if double.exists() else f"{trace}.npz"), **kept)
    facts = json.loads((traces / f"{trace}.json").read_text())
    short = {key: facts[key] for key in FACTS if key in facts}
    (OUT / pack.traces / f"{trace}.json").write_text(json.dumps(short, indent=1) + "\n")


def count(pack: Pack, stream: str) -> int:
    """Return the number of shipped samples of a stream."""
    return BATCHES[pack.traces][stream] * BATCH_SIZE


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
