"""Measure how much rendering costs a benchmark: python benchmarks/pipeline.py [--cifar FOLDER] [--json FILE].

Three parts, each a ratio of two things measured in this run:

- `end_to_end`: images per second of steps of source, tent and rdumb on batches that workers render, over those of
  the bare loop of steps on batches in memory (needs two idle cores);
- `ten_recipes`: processor seconds that ten recipes on one stream at 224 pixels spend on rendering, over those of one
  (independent of other jobs);
- `two_workers`: images per second that two render workers deliver to a network that costs nothing, over one worker
  (needs two idle cores).

Without --cifar, a folder with CIFAR-10, end_to_end runs on the embedded digits.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # the network takes one core, a worker the other; before numpy reads it

import argparse
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from measured import run
from torch import nn

from holdfast.benchmark import Job, bench, parse_suite
from holdfast.benchmark.building import build
from holdfast.benchmark.prefetch import Prefetch, placed
from holdfast.data import DATASETS, Digits, InMemoryImages
from holdfast.models import MODELS
from holdfast.records import Batch
from holdfast.streams import Stream, continual

RECIPES = "[source, tent, {name: rdumb, every_batches: 50}]"
TEN = "[source, batch_norm, tent, eata, rdumb, sar, rotta, note, t3a, lame]"
SUITE = """\
name: pipeline
models: [MODEL]
batch_size: 64
samples: SAMPLES
source: {name: DATA, split: train, samples: 128FOLDER}
streams:
  - name: continual
    data: {name: DATA, split: testFOLDER}
    corruptions: CORRUPTIONS
    severity: 5
    samples_per_domain: 100
recipes: RECIPES
"""
AT_32 = "[gaussian_noise, defocus_blur, snow, contrast, elastic_transform, jpeg_compression]"
AT_224 = "[gaussian_noise, glass_blur, fog, elastic_transform]"


def suite(**words: str) -> list[Job]:
    """Return the jobs of the suite with its words filled in."""
    text = SUITE
    for word, value in words.items():
        text = text.replace(word, value)
    return parse_suite(text).jobs()


def end_to_end(cifar: Path | None, weights: Path | None, samples: int) -> dict[str, float]:
    """Return, for each recipe, images per second of a whole run over those of its steps on batches in memory."""
    model = "digits_resnet" if cifar is None else f"{{name: cifar_resnet, depth: 20, weights: {weights}}}"
    words = {"DATA": "digits" if cifar is None else "cifar10", "FOLDER": "" if cifar is None else f", folder: {cifar}"}
    jobs = suite(MODEL=model, SAMPLES=str(samples), CORRUPTIONS=AT_32, RECIPES=RECIPES, **words)
    ratios = {}
    for job in jobs:
        before = bare_steps(job)[5:]
        rows = list(timestamps(job))
        whole = [later - earlier for earlier, later in pairwise(rows)][4:]  # after workers have started
        steps = before + bare_steps(job)[5:]  # from both sides, because the pace of a machine drifts
        ratios[job.recipe.label] = (sum(steps) / len(steps)) / (sum(whole) / len(whole))
    return ratios


def timestamps(job: Job) -> Iterator[float]:
    """Run a job as `bench` does, and yield the time after each of its batches."""
    built = build(job)
    with Prefetch(built.stream, workers=1) as prefetch, job.placement.computing():
        for batch in prefetch.batches(built.stream.spans(0, built.total, job.batch_size)):
            built.model.step(placed(batch.inputs, job.placement))
            yield time.perf_counter()


def bare_steps(job: Job, batches: int = 40) -> list[float]:
    """Return the seconds of each step on batches that were rendered before."""
    built, seconds = build(job), []
    spans = [span for span, _ in zip(built.stream.spans(0, built.total, job.batch_size), range(batches), strict=False)]
    inputs = [built.stream.read(*span).inputs for span in spans]
    with job.placement.computing():
        for stored in inputs:
            began = time.perf_counter()
            built.model.step(placed(stored, job.placement))
            seconds.append(time.perf_counter() - began)
    return seconds


@DATASETS.register("pipeline_large")
class Large(InMemoryImages):
    """The first digits at 224 pixels."""

    def __init__(self, split: Literal["train", "test"] = "test") -> None:
        digits = Digits(split)
        large = digits.images[:64].repeat(7, axis=1).repeat(7, axis=2)
        super().__init__(large, digits.labels[:64], name="pipeline_large")


@MODELS.register("pipeline_small")
def small() -> nn.Module:
    """A network for 224 pixels that costs little."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 7, stride=8), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8, 10))


def ten_recipes(samples: int) -> float:
    """Return the processor seconds of rendering for ten recipes over those for one, on images of 224 pixels."""
    spent = [rendering(recipes, samples) for recipes in ("[source]", TEN, "[source]", TEN)]
    one, ten = spent[0] + spent[2], spent[1] + spent[3]
    return ten / one


def rendering(recipes: str, samples: int) -> float:
    """Return the processor seconds that a bench of these recipes spends on rendering."""
    words = {"MODEL": "pipeline_small", "DATA": "pipeline_large", "FOLDER": "", "RECIPES": recipes}
    jobs = suite(SAMPLES=str(samples), CORRUPTIONS=AT_224, **words)
    read, spent = Stream.read, [0.0]

    def timed(stream: Stream, start: int, stop: int) -> Batch:
        began = time.process_time()
        batch = read(stream, start, stop)
        spent[0] += time.process_time() - began
        return batch

    Stream.read = timed  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = bench(jobs, Path(folder), render_workers=0)
    finally:
        Stream.read = read  # type: ignore[method-assign]
    assert not any(outcome.error for outcome in outcomes), [outcome.error for outcome in outcomes]
    return spent[0]


def two_workers(samples: int) -> float:
    """Return the images per second of two render workers over those of one, without a network."""
    rates = []
    for workers in (1, 2, 1, 2):
        digits = Digits("test")
        images = InMemoryImages(digits.images[:64].repeat(7, axis=1).repeat(7, axis=2), digits.labels[:64])
        stream = continual(images, corruptions=["glass_blur", "fog"], severity=5, samples_per_domain=samples // 2)
        with Prefetch(stream, workers=workers) as prefetch:
            batches = prefetch.batches(stream.spans(0, None, 16))
            for _ in range(4 * workers):
                next(batches)  # the workers have started
            began, seen = time.perf_counter(), 0
            for batch in batches:
                seen += len(batch)
            rates.append(seen / (time.perf_counter() - began))
    return (rates[1] + rates[3]) / (rates[0] + rates[2])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the ratios of the chosen parts."""
    torch.set_num_threads(1)
    samples = 2_500 if options.quick else options.samples
    measured: dict[str, Any] = {}
    if "end_to_end" in options.parts:
        data = "digits" if options.cifar is None else "cifar10"
        measured["end_to_end"] = {"data": data, "ratios": end_to_end(options.cifar, options.weights, samples)}
    if "ten_recipes" in options.parts:
        measured["ten_recipes"] = ten_recipes(samples // 16)
    if "two_workers" in options.parts:
        measured["two_workers"] = two_workers(samples // 4)
    return measured


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["end_to_end", "ten_recipes", "two_workers"])
    parser.add_argument("--cifar", type=Path, metavar="FOLDER", help="CIFAR-10; needs --weights")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="weights of a ResNet-20 for CIFAR-10")
    parser.add_argument("--samples", type=int, default=6_000)
    run(parser, measure)


if __name__ == "__main__":
    main()
