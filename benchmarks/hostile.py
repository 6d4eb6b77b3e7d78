"""Try to break the default: streams that no suite has, against the source.

    python benchmarks/hostile.py digits keywords --json results/hostile.json
    python benchmarks/hostile.py cifar10 --weights r20.safetensors --folder data/cifar10 --json results/hostile.json

Classes that are rare, few, or come in long runs; constant inputs, copies, another range, one channel; small batches;
domains that go with classes, come in waves or are rare; one class that stays under over-exposure, and inverted images:
on clean inputs, and on two strengths of three corruptions. `anchor` and `blend` get unlabelled source samples. Choices
were made on half A of the corruptions; half B confirms. Rows of subjects that are named are measured and added to what
the file holds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from measured import add_json, write
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast
from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS, Dataset
from holdfast.data.tensors import as_inputs
from holdfast.models import MODELS, digits_resnet, keywords_amaut
from holdfast.options.spec import Spec

METHODS = ("batch_norm", "anchor", "blend")
SOURCE_SAMPLES = 256
Classes = NDArray[np.int64]
Rng = np.random.Generator


@dataclass(frozen=True)
class Subject:
    """A network, its data, and two halves of corruptions."""

    network: Callable[[], nn.Module]
    data: Callable[[], Dataset]
    source: Callable[[], Dataset]  # whose inputs the default is shown
    halves: dict[str, tuple[str, ...]]
    severity: float
    family: str | None = None


@dataclass(frozen=True)
class Hostile:
    """A stream: which classes come, how they are corrupted and changed, and how many come at a time."""

    label: str
    classes: Callable[[Rng, int, int], Classes]
    corruptions: tuple[str, ...] = ()  # one after the other, each for `every` batches
    severities: tuple[float, ...] = (0,)  # one after the other, each for a batch
    every: int = 1
    corrupted: Literal["all", "half of the classes", "every fifth"] = "all"
    change: Literal["constant", "half the range", "one channel", "over-exposed", "inverted"] | None = None
    copies: int = 1
    batch_size: int = 64
    samples: int = 640


# Which classes come: (generator, number of classes, samples) -> classes ----------------------------------------


def balanced(rng: Rng, classes: int, samples: int) -> Classes:
    """Every class is equally frequent."""
    return rng.integers(classes, size=samples)


def mostly_one(rng: Rng, classes: int, samples: int) -> Classes:
    """Nine of ten samples are of one class."""
    return np.where(rng.random(samples) < 0.9, rng.integers(classes), balanced(rng, classes, samples))


def tail(rng: Rng, classes: int, samples: int, *, turns: bool = False) -> Classes:
    """The most frequent class comes 100 times as often as the rarest; `turns`: then it is the other way round."""
    shares = np.geomspace(1, 0.01, classes) / np.geomspace(1, 0.01, classes).sum()
    drawn = rng.choice(classes, p=shares, size=samples)
    return np.where(np.arange(samples) < samples / 2, drawn, classes - 1 - drawn) if turns else drawn


def runs(rng: Rng, classes: int, samples: int) -> Classes:
    """Each class comes for 192 samples."""
    return np.repeat(rng.permutation(classes), 192)[:samples]


def few(rng: Rng, classes: int, samples: int, *, number: int | None = None) -> Classes:
    """Only two classes come, or half of them."""
    return rng.choice(rng.permutation(classes)[: number or classes // 2], samples)


def only(_rng: Rng, _classes: int, samples: int, *, label: int) -> Classes:
    """A single class comes."""
    return np.full(samples, label)


# ---------------------------------------------------------------------------------------------------------------


def changed(inputs: Tensor, change: str | None, rng: Rng) -> tuple[Tensor, Tensor]:
    """Return changed inputs, and which of them show something."""
    blank = torch.zeros(len(inputs), dtype=torch.bool)
    if change == "constant":
        blank = torch.from_numpy(rng.random(len(inputs)) < 0.3)
        inputs = torch.where(blank.reshape(-1, *[1] * (inputs.dim() - 1)), float(rng.random()), inputs)
    if change == "half the range":
        inputs = inputs * 0.5
    if change == "over-exposed":
        inputs = (2.5 * inputs).clamp(max=1)
    if change == "inverted":
        inputs = 1 - inputs
    if change == "one channel":
        inputs = torch.cat([inputs[:, :1], torch.zeros_like(inputs[:, 1:])], 1)
    return inputs, ~blank


def streams(names: tuple[str, ...], severity: float, *, images: bool) -> Iterator[Hostile]:
    """Yield the streams of a subject and half."""
    for name, strength in [("", 0.0), *((name, strength) for name in names for strength in (1.0, severity))]:
        where = f"{name} {strength:g}" if name else "clean"
        plain = Hostile(f"{where}, balanced", balanced, (name,), (strength,))
        stream = partial(replace, plain)
        yield plain
        if name in ("", names[0]) or strength == severity:
            yield stream(label=f"{where}, 90 % of one class", classes=mostly_one)
            yield stream(label=f"{where}, long tail", classes=tail)
            yield stream(label=f"{where}, tail that turns", classes=partial(tail, turns=True))
            yield stream(label=f"{where}, runs of 192", classes=runs)
            yield stream(label=f"{where}, half of the classes", classes=few)
            yield stream(label=f"{where}, two classes", classes=partial(few, number=2))
            yield stream(label=f"{where}, 30 % constant", change="constant")
            yield stream(label=f"{where}, 16 copies of each", copies=16)
        if name in ("", names[-1]) and strength in (0.0, severity):
            yield stream(label=f"{where}, batches of 1", batch_size=1, samples=240)
            yield stream(label=f"{where}, batches of 4", batch_size=4, samples=480)
            yield stream(label=f"{where}, batches of 10", batch_size=10)
            yield stream(label=f"{where}, half the range", change="half the range")
            if images:
                yield stream(label=f"{where}, one channel", change="one channel")
            if images and not name:
                yield stream(label="inverted", change="inverted")
                yield stream(label="over-exposed, balanced", change="over-exposed")
                for label in (1, 4):
                    stays = partial(only, label=label)
                    yield stream(label=f"over-exposed, class {label} stays", classes=stays, change="over-exposed")
    mixed = Hostile("two domains in turn, runs of 192", runs, names[:2], (severity,))
    yield mixed
    waves = tuple(severity * share for share in (0, 0.2, 0.6, 1, 0.6, 0.2))
    yield replace(mixed, label="waves", classes=balanced, corruptions=names, severities=waves, every=5)
    some = replace(mixed, classes=balanced, corruptions=names[:1])
    yield replace(some, label="domains that go with classes", corrupted="half of the classes")
    yield replace(some, label="every fifth corrupted", corrupted="every fifth")


def batches(stream: Hostile, data: Dataset, family: str | None, rng: Rng) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield inputs, labels and which inputs show something."""
    of_class = [np.flatnonzero(data.labels == label) for label in range(int(data.labels.max()) + 1)]
    wanted = stream.classes(rng, len(of_class), stream.samples)
    for index, start in enumerate(range(0, len(wanted), stream.batch_size)):
        rows = np.array([rng.choice(of_class[label]) for label in wanted[start : start + stream.batch_size]])
        rows = np.repeat(rows[:: stream.copies], stream.copies)[: len(rows)]
        labels, samples = data.labels[rows], data.inputs(rows).copy()
        chosen = {
            "all": np.ones(len(rows), bool),
            "half of the classes": labels >= len(of_class) // 2,
            "every fifth": rng.random(len(rows)) < 0.2,
        }[stream.corrupted]
        name = stream.corruptions[index // stream.every % len(stream.corruptions)]
        severity = stream.severities[index % len(stream.severities)]
        for row in np.flatnonzero(chosen) if severity > 0 else ():
            draws = np.random.default_rng(rng.integers(2**31))
            samples[row] = CORRUPTIONS[name](samples[row], severity, draws, family=family)
        inputs, shown = changed(as_inputs(samples), stream.change, rng)
        yield inputs, torch.from_numpy(labels), shown


def measure(stream: Hostile, subject: Subject, data: Dataset, source: Tensor, seed: int) -> dict[str, Any]:
    """Return the source's accuracy on a stream in %, and the points that each method gains."""
    network = subject.network()
    models = {method: holdfast.adapt(network, method, source=source.split(64)) for method in METHODS}
    right, total = dict.fromkeys(("source", *METHODS), 0), 0
    for inputs, labels, shown in batches(stream, data, subject.family, np.random.default_rng(seed)):
        logits = {"source": models["blend"].source(inputs), **{name: model(inputs) for name, model in models.items()}}
        for name, predicted in logits.items():
            right[name] += int(((predicted.argmax(1) == labels) & shown).sum())
        total += int(shown.sum())
    accuracy = 100 * right.pop("source") / total
    gains = {method: round(100 * count / total - accuracy, 2) for method, count in right.items()}
    return {"stream": stream.label, "samples": total, "source": round(accuracy, 2), "gains": gains}


def subjects(options: argparse.Namespace) -> dict[str, Subject]:
    """Return the networks by the name of their data."""
    subjects = {
        "digits": Subject(
            digits_resnet,
            partial(DATASETS["digits"], "test"),
            partial(DATASETS["digits"], "validation"),
            {"A": ("gaussian_noise", "snow", "pixelate"), "B": ("contrast", "fog", "impulse_noise")},
            severity=3,
            family="224",
        ),
        "keywords": Subject(
            keywords_amaut,
            partial(DATASETS["keywords"], "test"),
            partial(DATASETS["keywords"], "validation"),
            {"A": ("white_noise", "time_stretch"), "B": ("pitch_shift", "end1")},
            severity=3,
        ),
    }
    if options.weights is not None:
        spec = Spec.parse({"name": "cifar_resnet", "weights": str(options.weights)})
        subjects["cifar10"] = Subject(
            partial(spec.build, MODELS),
            partial(DATASETS["cifar10"], split="test", folder=options.folder),
            partial(DATASETS["cifar10"], split="train", folder=options.folder),
            {"A": ("shot_noise", "fog", "pixelate"), "B": ("gaussian_blur", "contrast", "impulse_noise")},
            severity=5,
        )
    return subjects


def main() -> None:
    """Measure every stream of the named subjects, print a line for each, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=["digits", "keywords", "cifar10"])
    parser.add_argument("--halves", nargs="+", choices=["A", "B"], default=["A", "B"])
    parser.add_argument("--weights", type=Path, help="safetensors file of a CIFAR ResNet, for cifar10")
    parser.add_argument("--folder", type=Path, help="folder of CIFAR-10, for cifar10")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--streams", type=int, help="measure the first streams alone")
    add_json(parser)
    options = parser.parse_args()
    known = subjects(options)
    if missing := [name for name in options.names if name not in known]:
        parser.error(f"{missing[0]} needs --weights and --folder")
    torch.set_num_threads(1)
    kept = json.loads(options.json.read_text())["measured"]["rows"] if options.json and options.json.exists() else []
    again = {(name, half) for name in options.names for half in options.halves}
    rows = [row for row in kept if (row["subject"], row["half"]) not in again]
    for name in options.names:
        subject = known[name]
        data, shown = subject.data(), subject.source()
        chosen = np.random.default_rng(options.seed).permutation(len(shown.labels))[:SOURCE_SAMPLES]
        source = as_inputs(shown.inputs(chosen))
        for half in options.halves:
            for stream in [*streams(subject.halves[half], subject.severity, images=name != "keywords")][
                : options.streams
            ]:
                row = measure(stream, subject, data, source, options.seed)
                rows.append({"subject": name, "half": half, **row})
                print(name, half, row, flush=True)
    write(options.json, {"seed": options.seed, "rows": rows})


if __name__ == "__main__":
    main()
