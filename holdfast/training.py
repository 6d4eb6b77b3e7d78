"""Training of the reference networks: seeded, a minute or two on a CPU, choosing nothing by the test split."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.blocks.views import circular_shift
from holdfast.data import DATASETS, Dataset
from holdfast.models import MODELS, weights_digest
from holdfast.models.classifier import main_normalisation
from holdfast.randomness import seeded_rng
from holdfast.registry import check_options, options_of

__all__ = ["Progress", "TrainResult", "accuracy", "fit", "save_weights", "train"]

Progress = Callable[[int, int, float], None]  # epochs done, epochs in all, mean loss of the last one

BATCH_SIZE = 32
PEAK_LR = 1e-3
WARMUP_SHARE = 0.1  # of all steps, before the cosine: transformers do not start at full speed
WEIGHT_DECAY = 0.05
MAX_GRADIENT_NORM = 1.0
MAX_ROTATION_DEGREES = 10.0
MAX_SCALE_CHANGE = 0.1
MAX_SHIFT_SHARE = 0.1  # of the image's side, or of the sound's length


@dataclass(frozen=True)
class TrainResult:
    """A trained network, how it was trained, and its accuracy on the three splits."""

    module: nn.Module
    model: str
    data: str
    epochs: int
    seed: int
    train_accuracy: float
    validation_accuracy: float
    test_accuracy: float


def train(
    model_name: str,
    data: str = "digits",
    *,
    epochs: int = 80,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainResult:
    """Train a reference network from random weights; the test split is looked at once, at the end."""
    build = MODELS[model_name]
    check_options(f"the model {model_name!r}", ["trained", "seed"], options_of(build))
    splits = {split: DATASETS[data](split) for split in ("train", "validation", "test")}
    module = build(trained=False, seed=seed)
    fit(module, splits["train"], epochs=epochs, seed=seed, progress=progress)
    shares = {split: accuracy(module, samples) for split, samples in splits.items()}
    return TrainResult(module, model_name, data, epochs, seed, shares["train"], shares["validation"], shares["test"])


def fit(module: nn.Module, samples: Dataset, *, epochs: int, seed: int = 0, progress: Progress | None = None) -> None:
    """Train a network in place on images or sounds and leave it in eval mode; the same seed gives the same weights."""
    inputs, labels = tensors_of(samples)
    optimizer = torch.optim.AdamW(module.parameters(), weight_decay=WEIGHT_DECAY)
    module.train()
    with one_thread():
        for epoch in range(epochs):
            rng = seeded_rng(seed, "training", epoch)
            order = torch.from_numpy(rng.permutation(len(inputs)))
            losses = []
            for start in range(0, len(inputs), BATCH_SIZE):
                chosen = order[start : start + BATCH_SIZE]
                optimizer.param_groups[0]["lr"] = learning_rate((epoch + start / len(inputs)) / epochs)
                loss = F.cross_entropy(module(moved(inputs[chosen], rng)), labels[chosen])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                nn.utils.clip_grad_norm_(module.parameters(), MAX_GRADIENT_NORM)
                optimizer.step()
                losses.append(loss.item())
            if progress is not None:
                progress(epoch + 1, epochs, float(np.mean(losses)))
    module.eval()


def learning_rate(done_share: float) -> float:
    """Return the learning rate after this share of the steps: a linear start, then half a cosine.

    >>> learning_rate(0.0), learning_rate(WARMUP_SHARE) == PEAK_LR, learning_rate(1.0)
    (0.0, True, 0.0)
    """
    if done_share < WARMUP_SHARE:
        return PEAK_LR * done_share / WARMUP_SHARE
    return PEAK_LR * 0.5 * (1 + math.cos(math.pi * (done_share - WARMUP_SHARE) / (1 - WARMUP_SHARE)))


def moved(inputs: Tensor, rng: np.random.Generator) -> Tensor:
    """Return images slightly turned, scaled and shifted; no noise, blur or contrast, which are to stay a real shift.

    Sounds are shifted in time, round the ends.
    """
    if inputs.dim() == 2:
        furthest = int(MAX_SHIFT_SHARE * inputs.shape[1])
        return circular_shift(inputs, torch.from_numpy(rng.integers(-furthest, furthest + 1, len(inputs))))
    angles = np.deg2rad(rng.uniform(-MAX_ROTATION_DEGREES, MAX_ROTATION_DEGREES, len(inputs)))
    scales = rng.uniform(1 - MAX_SCALE_CHANGE, 1 + MAX_SCALE_CHANGE, len(inputs))
    shifts = rng.uniform(-2 * MAX_SHIFT_SHARE, 2 * MAX_SHIFT_SHARE, (2, len(inputs)))  # the side is 2 long
    cosines, sines = scales * np.cos(angles), scales * np.sin(angles)
    rows = np.array([[cosines, -sines, shifts[0]], [sines, cosines, shifts[1]]])
    affine = torch.from_numpy(rows.transpose(2, 0, 1)).to(inputs.dtype)  # (batch, 2, 3)
    grid = F.affine_grid(affine, list(inputs.shape), align_corners=False)
    return F.grid_sample(inputs, grid, align_corners=False)


@torch.no_grad()
def accuracy(module: nn.Module, samples: Dataset) -> float:
    """Return the share of samples that a network in eval mode gets right."""
    inputs, labels = tensors_of(samples)
    answers = torch.cat([module(inputs[start : start + 256]).argmax(1) for start in range(0, len(inputs), 256)])
    return float((answers == labels).double().mean())


def tensors_of(samples: Dataset) -> tuple[Tensor, Tensor]:
    """Return all images in [0, 1], (n, 3, height, width), or sounds, (n, samples), and their labels."""
    inputs = torch.from_numpy(samples.inputs(np.arange(len(samples.labels))))
    if samples.input_spec.kind == "image":
        # Channels stay last in memory, as when the networks of the package were trained: kernels round accordingly.
        inputs = inputs.permute(0, 3, 1, 2).float() / 255
    return inputs, torch.from_numpy(samples.labels)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sum in one order: the trained weights do not depend on how many cores there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def save_weights(result: TrainResult, folder: str | Path) -> Path:
    """Write the weights as safetensors, with a JSON file beside them that says how they came about."""
    path = Path(folder) / f"{result.model}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(save(result.module.state_dict()))
    facts = {
        "model": result.model,
        "architecture": type(result.module).__name__,
        "normalisation": main_normalisation(result.module),
        "parameters": sum(weights.numel() for weights in result.module.parameters()),
        "data": result.data,
        "epochs": result.epochs,
        "seed": result.seed,
        "accuracy": {
            "train": round(result.train_accuracy, 4),
            "validation": round(result.validation_accuracy, 4),
            "test": round(result.test_accuracy, 4),
        },
        "command": f"holdfast train {result.data} --model {result.model} --epochs {result.epochs} --seed {result.seed}",
        "weights_digest": weights_digest(result.module),
    }
    path.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n")
    return path
