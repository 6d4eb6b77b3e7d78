"""Measure the promise on networks that people have: transferred, without BatchNorm, and trained from scratch.

    python benchmarks/promise.py --data data --nets nets --json results/promise-networks.json
    python benchmarks/promise.py --data data --nets nets --subjects "lite0 linear, PACS" --recipes blend --seeds 1 2

Every domain of every subject of `benchmarks/ordinary.py`, i.i.d., class-correlated and sorted by class, and two domains
in small batches: points over the source for each recipe, and the expected calibration error of source and default. The
default and the guard get a card of the subject's unlabelled source inputs; `blend, no card` and `guard(tent), no card`
get none. Choices were made on subjects of half A; those of half B confirm them. Rows of subjects, recipes and seeds
that are named are measured and added to what the file holds.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measured import add_json, write
from numpy.typing import NDArray
from ordinary import Subject, subjects
from torch import Tensor, nn

import holdfast
from holdfast.anchor import Card, make_card
from holdfast.records import SetupWarning

Order = NDArray[np.int64]
Model = Callable[[Tensor], Tensor]
SMALL = {1: 96, 4: 192, 16: 256}  # batch size: samples
ORDERS = ("i.i.d.", "correlated", "sorted", "batches of")
CALIBRATED = ("blend",)  # recipes whose calibration error is measured


@dataclass(frozen=True)
class Arrival:
    """A stream: which samples of a domain come in which order and how many at a time."""

    label: str
    domain: str
    order: Order
    batch_size: int


RECIPES: dict[str, Callable[[Subject, Card], Model]] = {
    "batch_norm": lambda subject, _: holdfast.adapt(subject.network, "batch_norm"),
    "tent": lambda subject, _: holdfast.adapt(subject.network, "tent"),
    "neo": lambda subject, _: holdfast.adapt(subject.network, "neo"),
    "t3a": lambda subject, _: holdfast.adapt(subject.network, "t3a"),
    "pea": lambda subject, _: holdfast.adapt(subject.network, "pea", source=subject.source),
    "foa_shift": lambda subject, _: holdfast.adapt(subject.network, "foa_shift", source=subject.source),
    "unitta_auto": lambda subject, _: holdfast.adapt(subject.network, "unitta_auto"),
    "anchor": lambda subject, card: holdfast.adapt(subject.network, "anchor", card=card),
    "blend": lambda subject, card: holdfast.adapt(subject.network, card=card),
    "guard(tent)": lambda subject, card: holdfast.guard(subject.network, "tent", card=card),
    "blend, no card": lambda subject, _: holdfast.adapt(subject.network),
    "blend, stored": lambda subject, _: holdfast.adapt(subject.network, stored_reference=True),
    "guard(tent), no card": lambda subject, _: holdfast.guard(subject.network, "tent"),
}


def arrivals(subject: Subject, seed: int, samples: int, batch_size: int) -> Iterator[Arrival]:
    """Yield the streams of a subject: every domain in three orders, two domains in small batches."""
    for domain, (_, labels) in subject.domains.items():
        rng = np.random.default_rng([seed, sum(map(ord, domain))])
        mixed = evenly(labels.numpy(), rng, samples)
        yield Arrival(f"{domain}, i.i.d.", domain, mixed, batch_size)
        yield Arrival(f"{domain}, correlated", domain, in_runs(labels.numpy(), mixed, rng), batch_size)
        classes = rng.permutation(int(labels.max()) + 1)
        rank = np.argsort(classes)[labels.numpy()[mixed]]
        yield Arrival(f"{domain}, sorted", domain, mixed[np.argsort(rank, kind="stable")], batch_size)
        if domain in list(subject.domains)[:2]:
            for size, number in SMALL.items():
                yield Arrival(f"{domain}, batches of {size}", domain, mixed[:number], size)


def evenly(labels: NDArray[Any], rng: np.random.Generator, samples: int) -> Order:
    """Return samples of all classes, as many of each, in any order."""
    of_class = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    chosen = np.concatenate([rows[: max(1, samples // len(of_class))] for rows in of_class])
    return rng.permutation(chosen)


def in_runs(labels: NDArray[Any], rows: Order, rng: np.random.Generator) -> Order:
    """Return the same samples in runs of 8 of one class."""
    of_class = [rows[labels[rows] == label] for label in np.unique(labels)]
    runs = [part for each in of_class for part in np.array_split(each, max(1, len(each) // 8))]
    return np.concatenate([runs[index] for index in rng.permutation(len(runs))])


def run(model: Model, inputs: Tensor, arrival: Arrival) -> Tensor:
    """Return the logits of a stream, (samples, classes)."""
    batches = torch.from_numpy(arrival.order).split(arrival.batch_size)
    return torch.cat([model(inputs[rows]).detach() for rows in batches])


def calibration_error(logits: Tensor, labels: Tensor) -> float:
    """Return the expected calibration error in ten equal bins of confidence, in %."""
    confidence, predicted = logits.softmax(1).max(1)
    right = (predicted == labels).float()
    bins = (confidence * 10).long().clamp(max=9)
    gaps = [(right[bins == each] - confidence[bins == each]).sum().abs() for each in bins.unique()]
    return 100 * float(torch.stack(gaps).sum()) / len(labels)


def measure(subject: Subject, card: Card, arrival: Arrival, wanted: list[str], source: Tensor) -> dict[str, Any]:
    """Return accuracy of the source in %, the points that recipes gain, and calibration errors."""
    inputs, labels = subject.domains[arrival.domain]
    truth = labels[torch.from_numpy(arrival.order)]

    def accuracy(logits: Tensor) -> float:
        return 100 * float((logits.argmax(1) == truth).float().mean())

    row: dict[str, Any] = {"stream": arrival.label, "samples": len(truth), "source": round(accuracy(source), 2)}
    gains, errors = {}, {"source": round(calibration_error(source, truth), 2)}
    for name in wanted:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SetupWarning)
                predictions = run(RECIPES[name](subject, card), inputs, arrival)
        except ValueError as error:  # the recipe does not suit the network
            print(f"{name}: {error}")
            continue
        gains[name] = round(accuracy(predictions) - accuracy(source), 2)
        if name in CALIBRATED:
            errors[name] = round(calibration_error(predictions, truth), 2)
    return {**row, "gains": gains, "calibration": errors}


def main() -> None:
    """Measure, print a line for each stream, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--nets", type=Path, required=True)
    parser.add_argument("--subjects", nargs="+")
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--samples", type=int, default=512, help="of each domain and order")
    parser.add_argument("--batch-size", type=int, default=64)
    add_json(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = subjects(options.data, options.nets)
    rows = json.loads(options.json.read_text())["measured"]["rows"] if options.json and options.json.exists() else []
    for name in options.subjects or list(known):
        subject = known[name]()
        network: nn.Module = subject.network.eval().requires_grad_(False)
        card = make_card(network, subject.source)
        for seed in options.seeds:
            for arrival in arrivals(subject, seed, options.samples, options.batch_size):
                if not any(order in arrival.label for order in options.orders):
                    continue
                with torch.no_grad():
                    source = run(network, subject.domains[arrival.domain][0], arrival)
                facts = {"subject": name, "kind": subject.kind, "half": subject.half, "seed": seed}
                row = {**facts, **measure(subject, card, arrival, options.recipes, source)}
                rows = merged(rows, row)
                print(row, flush=True)
            write(options.json, {"rows": rows})


def merged(rows: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with a new one, which adds its recipes to an earlier one of the same stream."""
    key = ("subject", "seed", "stream", "samples")
    same = [row for row in rows if all(row[field] == new[field] for field in key)]
    if not same:
        return [*rows, new]
    joined = {**new, "gains": {**same[0]["gains"], **new["gains"]}}
    joined["calibration"] = {**same[0]["calibration"], **new["calibration"]}
    return [joined if row is same[0] else row for row in rows]


if __name__ == "__main__":
    main()
