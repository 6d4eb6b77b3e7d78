"""Measure alarms, confidence sequences and audits by labels, and write the numbers as JSON.

    python benchmarks/evidence.py [--recorded FOLDER] [--part alarm|sequence|audit|scale] > results/evidence.json

Simulated streams need nothing else. `--recorded` names a folder of .npz files, one for each stream, that hold `labels`,
the logits `src` of the source, and logits `anc` and probabilities `q` of the anchor, one row for each sample in order.
Their names start with the network and a half of the streams, as in r20-A-0-clean_iid.npz. What is served is the mean of
source and anchor. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measured import add_json, write
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln

from holdfast.evidence import (
    ConfidenceSequence,
    LabelAudit,
    LossAlarm,
    temperature_from_accuracy,
    temperature_from_agreement,
    temperature_from_labels,
)

Array = NDArray[np.float64]
HEALTHY = {  # probabilities of a loss of 1 and of -1; the rest is 0
    "fair coin": (0.5, 0.5),
    "rare, fair": (0.05, 0.05),
    "gains 3 points": (0.05, 0.08),
}
HARMFUL = {"loses 7 points": (0.12, 0.05), "loses 15 points": (0.20, 0.05), "loses 45 points": (0.50, 0.05)}
LOOKS = (100, 300, 1000, 3000, 10_000)
POINTS = (5, 2, 1)


def losses(rng: np.random.Generator, count: int, up: float, down: float) -> Array:
    """Return losses of 1, 0 and −1."""
    draws = rng.random(count)
    return (draws < up) * 1.0 - (draws > 1 - down)


def alarms(streams: int, length: int) -> dict[str, object]:
    """Return the shares of healthy streams with an alarm at any time, and delays of detection in samples."""
    false = {}
    for level in (0.01, 0.1):
        for name, (up, down) in HEALTHY.items():
            rng = np.random.default_rng(0)
            raised = sum(LossAlarm(level=level).observe(losses(rng, length, up, down)) for _ in range(streams))
            false[f"level {level}, {name}"] = raised / streams
            print("false alarms", level, name, raised / streams, file=sys.stderr)
    delays = {}
    for healthy in (0, 1000, 10_000):
        for name, (up, down) in HARMFUL.items():
            found_after = []
            for seed in range(50):
                rng, alarm = np.random.default_rng(seed), LossAlarm(level=0.01)
                alarm.observe(losses(rng, healthy, *HEALTHY["gains 3 points"]))
                harmful = losses(rng, 5000, up, down)
                found_after.append(next((at + 1 for at, loss in enumerate(harmful) if alarm.observe(loss)), 5000))
            median, most = np.quantile(found_after, (0.5, 0.9)).round()
            delays[f"{name} after {healthy} healthy samples"] = {"median": median, "90 %": most}
    alarm, start = LossAlarm(), time.perf_counter()
    alarm.observe(losses(np.random.default_rng(0), 10_000, 0.05, 0.08))
    return {
        "streams": streams,
        "samples of a stream": length,
        "share of healthy streams with an alarm": false,
        "samples until the alarm, level 0.01": delays,
        "milliseconds for 10000 samples": round(1000 * (time.perf_counter() - start), 1),
    }


def empirical_bernstein(values: Array, confidence: float) -> tuple[float, float]:
    """Return the bounds of Howard et al. (2021), Theorem 4, with the gamma-exponential mixture tuned for 300 values."""
    counts = np.arange(1, len(values) + 1)
    centres = (np.cumsum(values) - values + 0.5) / counts
    tail, spread = math.log(2 / (1 - confidence)), float(((values - centres) ** 2).sum())
    prior = 300 / 16 / (2 * tail + math.log(1 + 2 * tail))

    def excess(distance: float) -> float:
        reached, after = spread + prior, distance + spread + prior
        constant = prior * math.log(prior) - gammaln(prior) - math.log(gammainc(prior, prior))
        grown = gammaln(reached) + math.log(gammainc(reached, after)) - reached * math.log(after)
        return float(constant + grown + distance + spread - tail)

    reach = brentq(excess, 0.0, 10 * math.sqrt((spread + prior) * tail) + 10 * tail) / len(values)
    return max(0.0, float(values.mean()) - reach), min(1.0, float(values.mean()) + reach)


def hedged(values: Array, confidence: float) -> tuple[float, float]:
    """Return the hedged bets of Waudby-Smith and Ramdas (2024), which hold for a constant mean only."""
    means, counts, tail = np.linspace(0.001, 0.999, 999), np.arange(1, len(values) + 1), 1 - confidence
    averages = (np.cumsum(values) + 0.5) / (counts + 1)
    variances = (np.cumsum((values - averages) ** 2) + 0.25) / (counts + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    stakes = np.sqrt(2 * math.log(2 / tail) / (before * counts * np.log(counts + 1)))[:, None]
    up = np.log1p(np.minimum(stakes, 0.5 / means) * (values[:, None] - means)).cumsum(0)
    down = np.log1p(-np.minimum(stakes, 0.5 / (1 - means)) * (values[:, None] - means)).cumsum(0)
    possible = means[(np.maximum(up, down) - math.log(2)).max(0) < math.log(1 / tail)]
    return float(possible.min()), float(possible.max())


def ours(values: Array, confidence: float) -> tuple[float, float]:
    """Return the bounds of `ConfidenceSequence`."""
    sequence = ConfidenceSequence(confidence=confidence)
    sequence.observe(values)
    return sequence.interval().low, sequence.interval().high


def sequences(streams: int) -> dict[str, object]:
    """Return widths of three kinds of confidence sequences, and how often all intervals of a stream hold."""
    widths: dict[str, dict[str, list[float]]] = {}
    kinds: dict[str, Callable[[Array, float], tuple[float, float]]] = {
        "constant stakes (ours)": ours,
        "empirical Bernstein": empirical_bernstein,
        "hedged bets, for a constant mean only": hedged,
    }
    for mean in (0.5, 0.8, 0.95):
        for name, kind in kinds.items():
            rng, rows = np.random.default_rng(0), []
            for _ in range(5 if kind is hedged else 20):
                values = (rng.random(LOOKS[-1]) < mean).astype(float)
                rows.append([high - low for low, high in (kind(values[:count], 0.95) for count in LOOKS)])
            widths.setdefault(f"mean {mean}", {})[name] = np.mean(rows, axis=0).round(4).tolist()
    position = np.arange(2000)
    streams_of = {
        "constant 0.5": np.full(2000, 0.5),
        "constant 0.98": np.full(2000, 0.98),
        "falls from 1 to 0": 1 - position / 2000,
        "jumps between 0 and 1": (position // 100 % 2).astype(float),
        "jumps between 0.2 and 0.8": 0.2 + 0.6 * (position // 100 % 2),
    }
    coverage = {}
    for name, means in streams_of.items():
        rng, held = np.random.default_rng(1), 0
        true = means.cumsum() / (position + 1)
        for _ in range(streams):
            sequence, wrong = ConfidenceSequence(confidence=0.9), False
            values = (rng.random(2000) < means).astype(float)
            for start in range(0, 2000, 20):
                sequence.observe(values[start : start + 20])
                now = sequence.interval()
                wrong |= not now.low - 1e-9 <= true[start + 19] <= now.high + 1e-9
            held += not wrong
        coverage[name] = held / streams
        print("sequence", name, held / streams, file=sys.stderr)
    return {
        "confidence of the widths": 0.95,
        "observations": LOOKS,
        "width": widths,
        "streams": streams,
        "share of streams whose 100 intervals of 90 % all hold": coverage,
    }


@dataclass(frozen=True)
class Served:
    """Predictions of a stream, with the estimated probabilities of their being right, and labels."""

    served: NDArray[np.int64]
    source: NDArray[np.int64]
    right: Array
    source_right: Array
    labels: NDArray[np.int64]

    def part(self, start: int, stop: int) -> dict[str, NDArray[np.generic]]:
        """Return what `LabelAudit.serve` takes; a stream repeats itself after its end."""
        rows = np.arange(start, stop) % len(self.labels)
        return {name: getattr(self, name)[rows] for name in ("served", "source", "right", "source_right")}

    def guessed(self) -> Served:
        """Return the stream without estimates."""
        even = np.full(len(self.labels), 0.5)
        return Served(self.served, self.source, even, even, self.labels)


def recorded(path: Path) -> Served:
    """Read one stream."""
    with np.load(path) as file:
        known = file["labels"] >= 0  # inputs of pure noise have none
        logits, anchored, labels = file["src"][known] / 1.75, file["q"][known], file["labels"][known]
    exponents = np.exp(logits - logits.max(1, keepdims=True))
    served, source = (exponents / exponents.sum(1, keepdims=True) + anchored).argmax(1), logits.argmax(1)
    rows, beliefs = np.arange(len(labels)), anchored.astype(float).clip(0, 1)
    return Served(served, source, beliefs[rows, served], beliefs[rows, source], labels)


def joined(streams: list[Served]) -> Served:
    """Return streams one after the other."""
    names = ("served", "source", "right", "source_right", "labels")
    return Served(*(np.concatenate([getattr(stream, name) for stream in streams]) for name in names))


def audited(data: Served, audit: LabelAudit, samples: int, step: int) -> Iterator[int]:
    """Serve a stream with all wanted labels, and yield after each step how many samples were served."""
    for start in range(0, samples, step):
        for sample in audit.serve(**data.part(start, start + step)).wanted_ids:
            audit.feedback(sample, int(data.labels[sample % len(data.labels)]))
        yield start + step


def coverage_of(data: Served, seeds: int, budget: float) -> tuple[int, int]:
    """Return for how many seeds all 90 % intervals held: of accuracy, and of gain."""
    now, before = data.served == data.labels, data.source == data.labels
    counts = np.arange(1, len(now) + 1)
    accuracy, gain = now.cumsum() / counts, (now.cumsum() - before.cumsum()) / counts
    held = [0, 0]
    for seed in range(seeds):
        audit, right = LabelAudit(budget=budget, confidence=0.9, seed=seed), [True, True]
        for end in audited(data, audit, len(now) // 64 * 64, 64):
            for at, (interval, true) in enumerate(((audit.accuracy(), accuracy), (audit.gain(), gain))):
                right[at] &= interval.low - 1e-9 <= true[end - 1] <= interval.high + 1e-9
        held = [count + now_right for count, now_right in zip(held, right, strict=True)]
    return held[0], held[1]


def labels_needed(data: Served, kind: str, *, gain: bool, budget: float) -> dict[str, int | None]:
    """Return how many labels bring the lower bound within some points of the value; None: more than were taken."""
    needed: dict[str, int | None] = {f"{points} points": None for points in POINTS}
    if kind == "uniform sampling":
        order = np.random.default_rng(0).permutation(np.arange(40_000) % len(data.labels))
        now, before = ((row == data.labels)[order].astype(float) for row in (data.served, data.source))
        sequence = ConfidenceSequence(lowest=-1.0 if gain else 0.0)
        for count in range(25, len(order) + 1, 25):
            sequence.observe((now - before if gain else now)[count - 25 : count])
            _note(needed, sequence.interval().value - sequence.interval().low, count)
        return needed
    audit = LabelAudit(budget=budget, gain_weight=1.0 if gain else 0.0)
    for _ in audited(data.guessed() if kind == "chosen by difference" else data, audit, int(25_000 / budget), 256):
        interval = audit.gain() if gain else audit.accuracy()
        if interval.samples:
            _note(needed, interval.value - interval.low, audit.requested)
        if None not in needed.values():
            break
    return needed


def _note(needed: dict[str, int | None], reach: float, labels: int) -> None:
    for points in POINTS:
        if needed[f"{points} points"] is None and reach <= points / 100:
            needed[f"{points} points"] = labels


def audits(folder: Path | None, seeds: int) -> dict[str, object]:
    """Return the coverage of audits on simulated and recorded streams, and how many labels they need."""
    rng, size = np.random.default_rng(0), 2560
    chance = np.linspace(0.95, 0.4, size)
    served = (rng.random(size) >= chance) * 1
    source = np.where(rng.random(size) < 0.2, 2 * (rng.random(size) < 0.6), served)
    streams = {
        f"simulated, estimates {name}": Served(served, source, right, right, np.zeros(size, np.int64))
        for name, right in {"honest": chance, "always 99 %": np.full(size, 0.99), "reversed": 1 - chance}.items()
    }
    held_shares: dict[str, dict[str, float]] = {}
    for name, data in streams.items():
        held = coverage_of(data, 4 * seeds, 0.1)
        held_shares[name] = {"accuracy": held[0] / (4 * seeds), "gain": held[1] / (4 * seeds)}
        print("audit", name, held_shares[name], file=sys.stderr)
    networks: dict[str, list[Served]] = {}
    for path in sorted(folder.glob("*-*.npz")) if folder else ():
        stream = recorded(path)
        if len(stream.labels) >= 2000:
            networks.setdefault("-".join(path.name.split("-")[:2]), []).append(stream)
    certified: dict[str, object] = {}
    for network, kept in networks.items():
        counts = np.array([coverage_of(stream, seeds, 0.1) for stream in kept])
        shares = (counts / seeds).mean(0)
        held_shares[f"{network}, {len(kept)} streams"] = {
            "accuracy": round(float(shares[0]), 4),
            "gain": round(float(shares[1]), 4),
            "worst stream": float(counts.min() / seeds),
        }
        whole = joined(kept)
        certified[network] = {
            "accuracy of what is served": round(float((whole.served == whole.labels).mean()), 4),
            "gain over the source": round(
                float((whole.served == whole.labels).mean() - (whole.source == whole.labels).mean()), 4
            ),
            "share of predictions that differ": round(float((whole.served != whole.source).mean()), 4),
            "labels": {
                target: {
                    kind: labels_needed(whole, kind, gain=target == "gain", budget=0.1)
                    for kind in ("uniform sampling", "chosen by difference", "with prediction power")
                }
                for target in ("accuracy", "gain")
            },
        }
        print("audit", network, json.dumps(certified[network]), file=sys.stderr)
    return {
        "budget": 0.1,
        "seeds of the coins": seeds,
        "share of audits whose intervals of 90 % all hold": held_shares,
        "labels until the 95 % lower bound is within points of the value": certified,
    }


def scales(folder: Path | None) -> dict[str, object]:
    """Return how far mean confidence is from accuracy, in points, at the temperatures that each kind of data gives."""
    measured: dict[str, object] = {}
    for path in sorted(folder.glob("*-*.npz")) if folder else ():
        with np.load(path) as stored:
            known = stored["labels"] >= 0
            source, anchor = (stored[name][known].astype(float) for name in ("src", "anc"))
            labels = stored["labels"][known]
        if len(labels) < 100:
            continue
        few = np.random.default_rng(0).permutation(len(labels))[:60]
        accuracy = float((anchor.argmax(1) == labels).mean())
        agreed = temperature_from_agreement(anchor, source)
        temperatures = {
            "default 1.75": 1.75,
            "60 labels": temperature_from_labels(anchor[few], labels[few]).temperature,
            "its accuracy": temperature_from_accuracy(anchor, min(accuracy, 1 - 1 / len(labels))).temperature,
            "agreement with the source": math.nan if agreed is None else agreed.temperature,
        }
        measured[path.stem] = {
            "accuracy of the anchor": round(accuracy, 3),
            "agreement minus accuracy of the source": round(
                float((anchor.argmax(1) == source.argmax(1)).mean() - (source.argmax(1) == labels).mean()), 3
            ),
            "temperature and error in points": {
                name: "unknown"
                if math.isnan(value)
                else [round(value, 2), round(100 * (_sure(anchor, value) - accuracy), 1)]
                for name, value in temperatures.items()
            },
        }
    return measured


def _sure(logits: Array, temperature: float) -> float:
    """Return the mean confidence at a temperature."""
    return float((1 / np.exp((logits - logits.max(1, keepdims=True)) / temperature).sum(1)).mean())


def main() -> None:
    """Print the numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--part", choices=("alarm", "sequence", "audit", "scale"))
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--length", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=40)
    add_json(parser)
    chosen = parser.parse_args()
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "alarm": lambda: alarms(chosen.streams, chosen.length),
        "sequence": lambda: sequences(chosen.streams // 2),
        "audit": lambda: audits(chosen.recorded, chosen.seeds),
        "scale": lambda: scales(chosen.recorded),
    }
    results = {name: part() for name, part in parts.items() if chosen.part in (None, name)}
    print(json.dumps(results, indent=1))
    write(chosen.json, results)


if __name__ == "__main__":
    main()
