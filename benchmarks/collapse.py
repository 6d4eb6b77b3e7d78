"""Measure how soon a collapse is noticed, on EfficientNet-Lite0 and on the embedded digits.

    python benchmarks/collapse.py record FOLDER --imagenet FOLDER                  # logits of source, anchors and TENT
    python benchmarks/collapse.py judge FOLDER --json results/collapse-delay.json  # when would it have been reset?

TENT is healthy for 6 or 8 batches. Then it collapses: on the same images in the same order at a higher learning rate,
or because each batch holds 50 views of one image. The collapse is the first batch on which TENT is more than 10 points
less accurate than the source. The delay is the number of batches from there to the first reset by the recovery
`regret`, and to the guard's alarm (without its gate, which would undo updates before), each with held-out labels and
without anything. Judging replays the logits through estimator, recovery and guard; up to the first reset, TENT is what
it would be without them. The committed result has seeds 0 and 1 of EfficientNet-Lite0 and 0, 1 and 2 of the digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from coverage import Recording, Replayed, adapting, anchor_of, read, recording_of
from measured import add_json, write
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.data import DATASETS, Dataset
from holdfast.data.base import InMemoryImages
from holdfast.data.crops import Crop
from holdfast.estimators import Observation
from holdfast.estimators.anchored import Anchored
from holdfast.methods.guard import Guard
from holdfast.models import MODELS
from holdfast.models.classifier import Classifier
from holdfast.models.tiny import tiny_resnet
from holdfast.records import Step, Update
from holdfast.recovery.regret import Regret
from holdfast.streams import STREAMS

FALLEN = 0.1  # by how much a collapsed network is less accurate than the source
SCRIPTS = {"rate × 1000": 1000.0, "rate × 10000": 10000.0, "one class per batch": 1.0}
Batches = list[tuple[Tensor, NDArray[np.int64]]]


@dataclass(frozen=True)
class Setting:
    """Corruptions on which TENT is not worse than the source, and the lengths of both parts."""

    corruptions: Sequence[str]
    scripts: Sequence[str]
    family: str | None = None
    severity: float = 3
    batch_size: int = 50
    healthy: int = 8  # batches
    failing: int = 8
    labels: int = 100  # held out


SETTINGS = {
    "efficientnet_lite0": Setting(["contrast", "fog"], ["rate × 10000", "one class per batch"], healthy=6, failing=6),
    "digits_resnet": Setting(["gaussian_noise", "pixelate"], ["rate × 1000"], "224"),
}


def main() -> None:
    """Record logits, or judge recorded ones."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=["record", "judge"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="*", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--imagenet", type=Path, default=Path("imagenet"), help="one subfolder for each class")
    add_json(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.task == "record":
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in options.networks:
            for seed in options.seeds:
                record(name, seed, options.folder, options.imagenet)
        return
    rows = [row for name in options.networks for row in judged(name, options.folder)]
    for row in rows:
        print(row)
    write(
        options.json, {"fallen": FALLEN, "settings": {name: asdict(SETTINGS[name]) for name in SETTINGS}, "rows": rows}
    )


# Recording ------------------------------------------------------------------------------------------------


def record(name: str, seed: int, folder: Path, imagenet: Path) -> None:
    """Write the logits of the held-out data and of each script."""
    setting, network = SETTINGS[name], MODELS[name]().eval()
    test, held = data_of(name, setting, seed, imagenet)
    clean = STREAMS["continual"](held, corruptions=["clean"], seed=seed)
    keep(folder / f"{name}-{seed}-holdout.npz", recording_of(network, batches_of(clean, setting)))
    for script in setting.scripts:
        batches = scripted(test, setting, script, seed)
        recording = recording_of(network, batches, adapted=partial(adapting, network, setting.healthy, SCRIPTS[script]))
        inputs, source = [inputs for inputs, _ in batches], torch.from_numpy(recording.source).split(setting.batch_size)
        keep(folder / f"{name}-{seed}-{script}.npz", recording, guarding=anchor_of(network, inputs, source))
        print(f"Recorded {name}, seed {seed}, {script}", flush=True)


def keep(path: Path, recording: Recording, **more: NDArray[Any]) -> None:
    """Write a recording and other arrays."""
    known = {key: value for key, value in asdict(recording).items() if value is not None}
    np.savez_compressed(path, **known, **more)


def data_of(name: str, setting: Setting, seed: int, imagenet: Path) -> tuple[Dataset, Dataset]:
    """Return the data of the stream and the held-out data."""
    if name == "digits_resnet":
        return DATASETS["digits"]("test"), part_of(DATASETS["digits"]("validation"), np.arange(setting.labels))
    data = DATASETS["image_folder"](folder=imagenet)
    order = np.random.default_rng(seed).permutation(len(data.labels))
    return part_of(data, order[setting.labels :]), part_of(data, order[: setting.labels])


def part_of(data: Dataset, rows: NDArray[np.int64]) -> InMemoryImages:
    """Return these images of a data set."""
    return InMemoryImages(data.inputs(rows), data.labels[rows], class_names=data.class_names)


def scripted(data: Dataset, setting: Setting, script: str, seed: int) -> Batches:
    """Return the healthy batches, then the failing ones."""
    parts: list[tuple[Dataset, int, str]] = [(data, setting.healthy, "shuffled"), (data, setting.failing, "shuffled")]
    if script == "one class per batch":
        parts[1] = (views_of(data, setting, seed), setting.failing, "single_class")
    batches = []
    for some, count, order in parts:
        stream = STREAMS["continual"](
            some,
            corruptions=setting.corruptions,
            severity=setting.severity,
            family=setting.family,
            samples_per_domain=count * setting.batch_size // len(setting.corruptions),
            order=order,
            run=setting.batch_size if order == "single_class" else None,
            seed=seed,
        )
        batches += batches_of(stream, setting)
    return batches


def batches_of(stream: Any, setting: Setting) -> Batches:
    """Return all batches of a stream."""
    return [(batch.inputs, batch.labels) for batch in stream.starting_at(0, batch_size=setting.batch_size)]


def views_of(data: Dataset, setting: Setting, seed: int) -> InMemoryImages:
    """Return shifted and mirrored views of a few images, a batch of each."""
    images = np.random.default_rng(seed).permutation(len(data.labels))[: setting.failing]
    chosen = np.repeat(images, setting.batch_size)
    rngs = [np.random.default_rng([seed, index]) for index in range(len(chosen))]
    views = Crop("shifted").views(data, chosen, rngs)
    return InMemoryImages(views, data.labels[chosen], class_names=data.class_names)


# Judging --------------------------------------------------------------------------------------------------


class ReplayedMethod(nn.Module):
    """A guarded method whose predictions are recorded; it counts its resets."""

    samples_backwarded = resets = 0
    paused = False

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def predict(self, numbers: Tensor) -> Tensor:
        """Return the logits, (samples, classes)."""
        return self.logits[numbers]

    def adapt(self, _inputs: Tensor, _logits: Tensor) -> Update:
        """Change nothing: the updates are in the recorded logits."""
        return Update()

    def reset(self) -> None:
        """Count a reset."""
        self.resets += 1


def judged(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield for each recording the batch of the collapse, and that of the first reset by each watcher."""
    setting = SETTINGS[name]
    for script in setting.scripts:
        for path in sorted(folder.glob(f"{name}-*-{script}.npz")):
            seed = int(path.stem.removeprefix(f"{name}-").split("-")[0])
            held = read(folder / f"{name}-{seed}-holdout.npz")
            with np.load(path) as file:
                guarding = file["guarding"]
                recording = Recording(**{key: file[key] for key in file if key != "guarding"})
            assert recording.adapted is not None
            right = {"source": recording.source, "tent": recording.adapted}
            accuracy = {
                who: [
                    round(float(some.mean()), 4)
                    for some in np.split(logits.argmax(1) == recording.labels, ends(recording))
                ]
                for who, logits in right.items()
            }
            fallen = [source - tent > FALLEN for source, tent in zip(*accuracy.values(), strict=True)]
            collapse = next((index for index in range(setting.healthy, len(fallen)) if fallen[index]), None)
            resets = {}
            for scale in ("labels", "nothing"):
                known = held if scale == "labels" else None
                resets[f"regret, {scale}"] = regrets(recording, known)
                resets[f"alarm, {scale}"] = alarms(recording, guarding, known)
            false = {who: [index for index in batches if index < setting.healthy] for who, batches in resets.items()}
            first = {
                who: next((index for index in batches if index >= setting.healthy), None)
                for who, batches in resets.items()
            }
            facts = {"network": name, "script": script, "seed": seed, "accuracy": accuracy, "collapse": collapse}
            yield {**facts, "false_resets": false, "first_reset": first}


def ends(recording: Recording) -> NDArray[np.int64]:
    """Return where a batch ends and another begins."""
    return np.cumsum(recording.sizes)[:-1]


def regrets(recording: Recording, held: Recording | None) -> list[int]:
    """Return the batches at which `regret` resets TENT."""
    estimator, recovery, method = Anchored(), Regret(), ReplayedMethod(torch.zeros(0))
    estimator.network = Replayed(recording.anchor)  # type: ignore[assignment]
    estimator.follows = True
    if held is not None:
        estimator.anchor_temperature.fit(
            estimator.anchor, [torch.from_numpy(held.anchor)], [torch.from_numpy(held.labels)]
        )
    model, source = Classifier(tiny_resnet()), torch.from_numpy(recording.source)  # nobody looks at the model
    assert recording.adapted is not None
    fired = []
    for index, numbers in enumerate(torch.arange(len(recording.labels)).split(recording.sizes.tolist())):
        logits = torch.from_numpy(recording.adapted)[numbers]
        seen = Observation(numbers, logits, model, source=lambda rows: source[rows])
        step = Step(logits, estimates={"anchored": estimator.estimate(seen)})
        if recovery.recover(method, step) is not None:  # type: ignore[arg-type]
            fired.append(index)
    return fired


def alarms(recording: Recording, guarding: NDArray[np.float32], held: Recording | None) -> list[int]:
    """Return the batches at which the guard raises its alarm."""
    guard = Guard(Classifier(tiny_resnet()), gate_every=0)
    assert recording.adapted is not None
    guard.inner = ReplayedMethod(torch.from_numpy(recording.adapted))  # type: ignore[assignment]
    guard.source, guard.following = Replayed(recording.source), Replayed(guarding)  # type: ignore[assignment]
    if held is not None:
        guard.anchor_temperature.fit(guard.judge, [torch.from_numpy(held.anchor)], [torch.from_numpy(held.labels)])
    fired = []
    for index, numbers in enumerate(torch.arange(len(recording.labels)).split(recording.sizes.tolist())):
        guard.predict(numbers)
        if guard.adapt(numbers).recovered is not None:
            fired.append(index)
    return fired


if __name__ == "__main__":
    main()
