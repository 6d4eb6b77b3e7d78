"""Measure the coverage of the 90 % interval of `anchored` on seven networks and four streams.

    python benchmarks/interval_coverage.py record FOLDER --draw 0 --networks resnet20  # logits of every network
    python benchmarks/interval_coverage.py judge FOLDER results/coverage.json  # all estimates from these logits

Each of three draws has corruptions and samples of its own: the constants of the interval were chosen on two of them.
Recording takes the time; judging replays the logits through the estimator itself, with held-out labels, with held-out
inputs and their known accuracy, with held-out inputs alone, and with nothing. Networks that are not in the package
(`--weights`, `--cifar10`, `--imagenet`) are read from files.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast
from holdfast.anchor import Anchor
from holdfast.data import DATASETS, Dataset
from holdfast.estimators import Observation
from holdfast.estimators.anchored import USUAL_TEMPERATURE, Anchored
from holdfast.models import MODELS
from holdfast.models.cifar_resnet import CifarResNet
from holdfast.models.classifier import Classifier
from holdfast.models.tiny import tiny_resnet
from holdfast.streams import STREAMS, Stream

SEED = 5  # of the first draw
CHOSEN_ON = (0, 1)  # the draws
HALF_A = ["gaussian_noise", "defocus_blur", "snow", "contrast", "elastic_transform", "pixelate"]
HALF_B = ["shot_noise", "motion_blur", "fog", "brightness", "jpeg_compression", "impulse_noise"]
REST = ["speckle_noise", "glass_blur", "frost", "saturate", "gaussian_blur", "spatter"]
AUDIO = (["white_noise", "pitch_shift", "ensc"], ["time_stretch", "enq", "end1"], ["end2", "ENSC-L1", "PSH-L2"])
STREAM_NAMES = ("iid", "correlated", "sorted", "collapse")
SCALES = ("labels", "accuracy", "inputs", "nothing")  # what is known of the source, from most to least


@dataclass(frozen=True)
class Setting:
    """A network and the streams it is measured on."""

    corruptions: Sequence[Sequence[str]]  # of each draw
    severity: float
    family: str | None = None
    batch_size: int = 64
    batches: int = 12
    holdout: int = 256


SETTINGS = {
    "resnet20": Setting((HALF_A, HALF_B, REST), 5),
    "resnet56": Setting((HALF_B, HALF_A, REST), 5),
    "efficientnet_lite0": Setting((HALF_A, HALF_B, REST), 3, batch_size=50, batches=8, holdout=100),
    "digits_resnet": Setting((HALF_A, HALF_B, REST), 3, family="224"),
    "digits_resnet_gn": Setting((HALF_B, HALF_A, REST), 3, family="224"),
    "digits_vit": Setting((HALF_A, HALF_B, REST), 3, family="224"),
    "keywords_amaut": Setting(AUDIO, 3),
}


@dataclass(frozen=True)
class Recording:
    """Logits of a stream, (samples, classes); those of the adapted network are None for held-out data."""

    source: NDArray[np.float32]
    anchor: NDArray[np.float32]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    adapted: NDArray[np.float32] | None = None


def main() -> None:
    """Record logits, or judge recorded ones."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=["record", "judge"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path, nargs="?", default=Path("results/coverage.json"))
    parser.add_argument("--draw", type=int, choices=(0, 1, 2), default=0)
    parser.add_argument("--networks", nargs="*", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--streams", nargs="*", choices=STREAM_NAMES, default=list(STREAM_NAMES))
    parser.add_argument("--weights", type=Path, default=Path("weights"), help="resnet20.safetensors, resnet56.…")
    parser.add_argument("--cifar10", type=Path, default=Path("cifar10"))
    parser.add_argument("--imagenet", type=Path, default=Path("imagenet"), help="one subfolder for each class")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.task == "judge":
        options.result.write_text(one_line_each(judged(options.folder)))
        print(f"Wrote {options.result}")
        return
    folder = options.folder / str(options.draw)
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.networks:
        network, test, held = loaded(name, options)
        for stream, recording in recorded(SETTINGS[name], options.draw, network, test, held, options.streams):
            kept = {key: value for key, value in asdict(recording).items() if value is not None}
            np.savez_compressed(folder / f"{name}-{stream}.npz", **kept)
            print(f"Recorded {name}, {stream}", flush=True)


# Recording ------------------------------------------------------------------------------------------------


def loaded(name: str, options: argparse.Namespace) -> tuple[nn.Module, Dataset, Dataset]:
    """Return a network, its test data and the data that it is fitted to."""
    if name.startswith("resnet"):
        network: nn.Module = CifarResNet.from_file(options.weights / f"{name}.safetensors")
        data = DATASETS["cifar10"]("test", folder=options.cifar10)
        return network, data, data
    network = MODELS[name]()
    if name == "efficientnet_lite0":
        data = DATASETS["image_folder"](folder=options.imagenet)
        return network, data, data
    kind = "keywords" if name.startswith("keywords") else "digits"
    return network, DATASETS[kind]("test"), DATASETS[kind]("validation")


def recorded(
    setting: Setting, draw: int, network: nn.Module, test: Dataset, held: Dataset, wanted: Sequence[str]
) -> Iterator[tuple[str, Recording]]:
    """Yield the held-out recording, then those of the streams."""
    network.eval()
    clean = STREAMS["continual"](held, corruptions=["clean"], samples_per_domain=setting.holdout, seed=SEED + draw + 1)
    yield "holdout", recording_of(network, _batches(clean, setting.holdout, setting.batch_size))
    total = setting.batch_size * setting.batches
    for name in wanted:
        batches = _batches(stream_of(name, test, setting, draw), total, setting.batch_size)
        onset = setting.batches // 3 if name == "collapse" else None
        yield name, recording_of(network, batches, adapted=partial(adapting, network, onset))


def stream_of(name: str, data: Dataset, setting: Setting, draw: int) -> Stream:
    """Return a stream of clean and corrupted samples: one domain after the other."""
    domains = ["clean", *setting.corruptions[draw]]
    shared = {"corruptions": domains, "severity": setting.severity, "family": setting.family, "seed": SEED + draw}
    total = setting.batch_size * setting.batches
    if name == "correlated":  # the next sample has the same class with probability 0.95
        return STREAMS["unitta"](data, setting="(n,1)/(1,1)", mode="stationary", samples=total, **shared)
    order = "sorted" if name == "sorted" else "shuffled"
    return STREAMS["continual"](data, samples_per_domain=total // len(domains), order=order, **shared)


def _batches(stream: Stream, samples: int, size: int) -> list[tuple[Tensor, NDArray[np.int64]]]:
    return [(batch.inputs, batch.labels) for batch in stream.starting_at(0, stop=samples, batch_size=size)]


def adapting(network: nn.Module, onset: int | None, factor: float = 100.0) -> Callable[[int, Tensor], Tensor]:
    """Return TENT, whose learning rate is multiplied by a factor from the batch `onset` on."""
    model = holdfast.adapt(network, "tent")

    def predict(index: int, inputs: Tensor) -> Tensor:
        model.method.scale_rates(factor if onset is not None and index >= onset else 1.0)
        return model.step(inputs).logits.detach()

    return predict


@torch.no_grad()
def recording_of(
    network: nn.Module,
    batches: Sequence[tuple[Tensor, NDArray[np.int64]]],
    adapted: Callable[[], Callable[[int, Tensor], Tensor]] | None = None,
) -> Recording:
    """Run the source, the anchor and an adapted network over batches."""
    anchor = anchor_of(network, [inputs for inputs, _ in batches])
    source = [network(inputs) for inputs, _ in batches]
    own = None
    if adapted is not None:
        with torch.enable_grad():
            predict = adapted()
            own = torch.cat([predict(index, inputs) for index, (inputs, _) in enumerate(batches)]).numpy()
    sizes = np.array([len(labels) for _, labels in batches])
    labels = np.concatenate([labels for _, labels in batches])
    return Recording(torch.cat(source).numpy(), anchor, labels, sizes, own)


@torch.no_grad()
def anchor_of(
    network: nn.Module, batches: Sequence[Tensor], source: Sequence[Tensor] | None = None
) -> NDArray[np.float32]:
    """Return the logits of the anchor; with those of the source, of the guard's anchor, which balances classes."""
    following = Classifier(copy.deepcopy(network)).eval().requires_grad_(False)
    anchor, seen = Anchor(temperature=USUAL_TEMPERATURE), []
    anchor.tap(following, source_share=0.5)
    following.register_forward_hook(lambda _, __, logits: seen.append(logits))
    for index, inputs in enumerate(batches):
        anchor.judge(following, inputs, source=None if source is None else source[index])
    anchored: NDArray[np.float32] = torch.cat(seen).numpy()
    return anchored


# Judging --------------------------------------------------------------------------------------------------


class Replayed(nn.Module):
    """Returns recorded logits for the numbers of samples."""

    def __init__(self, logits: NDArray[np.float32]) -> None:
        super().__init__()
        self.logits = torch.from_numpy(logits)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the logits, (samples, classes)."""
        return self.logits[numbers]


class ReplayedAnchor(Anchored):
    """The estimator with a recorded anchor, whose statistics do or do not follow the inputs."""

    def __init__(self, logits: NDArray[np.float32], *, follows: bool, clean_accuracy: float | None) -> None:
        super().__init__(clean_accuracy=clean_accuracy, compare_every=1)
        self.network = Replayed(logits)  # type: ignore[assignment]
        self.follows = follows
        self.anchor.proportions = follows


def judged(folder: Path) -> dict[str, Any]:
    """Return the coverage of every draw, network, stream and scale, with what is needed to repeat it."""
    rows = []
    for path in sorted(folder.glob("*/*-holdout.npz"), key=lambda path: (path.parent.name, network_of(path))):
        held = read(path)
        for stream in STREAM_NAMES:
            recording = read(path.with_name(f"{network_of(path)}-{stream}.npz"))
            key = {"draw": int(path.parent.name), "network": network_of(path), "stream": stream}
            rows += [{**key, "scale": scale, **row(scale, held, recording)} for scale in SCALES]
    manifest = {
        "seed": SEED,
        "chosen_on": CHOSEN_ON,
        "interval": 0.9,
        "settings": {name: asdict(setting) for name, setting in SETTINGS.items()},
        "versions": {"holdfast": holdfast.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "python": platform.python_version(),
    }
    return {"manifest": manifest, "rows": rows}


def network_of(path: Path) -> str:
    """Return the network of a recording."""
    return path.stem.rpartition("-")[0]


def read(path: Path) -> Recording:
    """Return a recording."""
    with zipfile.ZipFile(path) as archive:
        names = {Path(entry).stem for entry in archive.namelist()}
    with np.load(path) as file:
        return Recording(**{name: file[name] for name in names})


def row(scale: str, held: Recording, recording: Recording) -> dict[str, Any]:
    """Return how often the interval holds the accuracy of its window, for the source and for TENT."""
    predicted = {"source": recording.source, "tent": recording.adapted}
    results = [
        result for logits in predicted.values() if logits is not None for result in run(scale, held, recording, logits)
    ]
    known = [(value, low, high, truth) for value, low, high, truth in results if not np.isnan(value)]
    kept: dict[str, Any] = {"windows": len(results), "unknown": len(results) - len(known)}
    if known:
        value, low, high, truth = np.array(known).T
        kept["covered"] = int(((low <= truth) & (truth <= high)).sum())
        kept["width"] = round(float((high - low).mean()), 4)
        kept["bias"] = round(float((value - truth).mean()), 4)
        kept["error"] = round(float(np.abs(value - truth).mean()), 4)
        kept["outside"] = round(float(np.maximum(np.maximum(low - truth, truth - high), 0).max()), 4)
    return kept


def run(
    scale: str, held: Recording, recording: Recording, logits: NDArray[np.float32]
) -> Iterator[tuple[float, float, float, float]]:
    """Yield the estimate, its interval and the accuracy of each window of 64 samples."""
    follows = not np.allclose(held.source, held.anchor, atol=1e-4)
    accuracy = float((held.source.argmax(1) == held.labels).mean()) if scale == "accuracy" else None
    estimator = ReplayedAnchor(recording.anchor, follows=follows, clean_accuracy=accuracy)
    held_logits, labels = [torch.from_numpy(held.anchor)], [torch.from_numpy(held.labels)]
    if scale != "nothing":
        source = [torch.from_numpy(held.source)] if follows else []
        estimator.anchor_temperature.fit(estimator.anchor, held_logits, labels if scale == "labels" else [None], source)
    model = Classifier(tiny_resnet())  # the estimator does not look at it
    right, source_logits = logits.argmax(1) == recording.labels, torch.from_numpy(recording.source)
    for start, stop in zip(np.cumsum(recording.sizes) - recording.sizes, np.cumsum(recording.sizes), strict=True):
        numbers = torch.arange(start, stop)
        seen = Observation(
            numbers, torch.from_numpy(logits[start:stop]), model, source=lambda rows: source_logits[rows]
        )
        estimate = estimator.estimate(seen)
        window = slice(max(0, stop - max(64, stop - start)), stop)
        low, high = (np.nan if bound is None else bound for bound in (estimate.low, estimate.high))
        yield estimate.value, low, high, float(right[window].mean())


def one_line_each(content: dict[str, Any]) -> str:
    """Return JSON with one line for each row."""
    rows = ",\n".join(map(json.dumps, content["rows"]))
    return f'{{"manifest": {json.dumps(content["manifest"])},\n"rows": [\n{rows}\n]}}\n'


if __name__ == "__main__":
    main()
