"""Time a step of the default in PyTorch against the same step in an ONNX file.

    python benchmarks/on_device.py --json results/on-device.json

Both adapt, on one thread, to the same batches in alternation; times are in milliseconds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import onnxruntime
import torch
from measured import run

import holdfast
from holdfast.models import load

SHAPES = {"digits_resnet": (3, 32, 32), "digits_vit": (3, 32, 32), "keywords_amaut": (16_000,)}
SIZES = (1, 16)


def times_of(name: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Return the times of one network for each batch size."""
    shape = SHAPES[name]
    model = holdfast.adapt(load(name), source=[torch.rand(32, *shape) for _ in range(4)])
    path = model.export(form="onnx", adapting=True, path=folder / f"{name}.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [entry.name.removeprefix("next_") for entry in session.get_outputs()[1:]]
    measured: dict[str, Any] = {"file_mb": round(Path(str(path)).stat().st_size / 1e6, 2)}
    for size in SIZES:
        state: dict[str, Any] = {}
        times: dict[str, list[float]] = {"pytorch": [], "onnxruntime": []}
        for _ in range(rounds):
            batch = torch.rand(size, *shape)
            start = time.perf_counter()
            model(batch)
            middle = time.perf_counter()
            _, *values = session.run(None, {"inputs": batch.numpy(), **state})
            times["onnxruntime"].append(1e3 * (time.perf_counter() - middle))
            times["pytorch"].append(1e3 * (middle - start))
            state = dict(zip(names, values, strict=True))
        medians = {runtime: round(median(each[rounds // 10 :]), 3) for runtime, each in times.items()}
        measured[f"batch {size}"] = {**medians, "ratio": round(medians["onnxruntime"] / medians["pytorch"], 3)}
    return measured


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the times of each network."""
    torch.set_num_threads(1)
    rounds = 20 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        return {"rounds": rounds, **{name: times_of(name, rounds, Path(folder)) for name in SHAPES}}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    run(parser, measure)


if __name__ == "__main__":
    main()
