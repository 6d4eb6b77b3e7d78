"""Train networks: seeded, on one thread, without using the test split."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.data import DATASETS, Dataset
from holdfast.machine.devices import threads
from holdfast.models import MODELS, seeded_weights, weights_digest
from holdfast.models.checkpoint import read_checkpoint
from holdfast.models.classifier import main_normalisation
from holdfast.options.problems import annotation_of
from holdfast.options.spec import Spec
from holdfast.randomness import seeded_rng
from holdfast.registry import parameters_of
from holdfast.training.augmentation import as_stored, cropping_spectrograms
from holdfast.training.procedures import PROCEDURES, Procedure, procedure_of

Progress = Callable[[int, int, float], None]  # epochs done, epochs in total, mean loss of the last epoch

DEFAULT_PROCEDURES = {"image": "images", "audio": "audio"}


@dataclass(frozen=True)
class TrainResult:
    """A trained network, how it was trained, and its accuracy on each split."""

    module: nn.Module
    model: str
    data: str
    epochs: int
    seed: int
    accuracy: Mapping[str, float]
    options: Mapping[str, str] = field(default_factory=dict)  # further options of the command


def train(
    model: str | Mapping[str, Any] | Spec,
    data: str | Mapping[str, Any] | Spec = "digits",
    *,
    procedure: str | None = None,
    epochs: int | None = None,
    seed: int = 0,
    noise: str | Path | None = None,
    start: str | Path | None = None,
    test: str | Mapping[str, Any] | Spec | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> TrainResult:
    """Train a network, from random weights or those in `start`, on the train split of a data set.

    Model and data are names, or mappings with a `name` and options, as in a suite. `procedure` is the name of a
    training procedure (`holdfast.training.procedure_of`), by default ours for this data set, or for images or audio.
    The test split, or the `test` data if a set has no splits, is evaluated once, at the end.
    """
    network, samples = Spec.parse(model), Spec.parse(data)
    held_out = None if test is None else Spec.parse(test)
    module = _untrained(network, seed)
    if start is not None:
        start_from(module, Path(start))
    splits = _splits(samples)
    if held_out is not None:
        splits["test"] = held_out.build(DATASETS)
    kind = splits["train"].input_spec.kind
    name = procedure or (samples.name if samples.name in PROCEDURES else DEFAULT_PROCEDURES[kind])
    how = procedure_of(name, noise=noise)
    epochs = epochs or how.epochs
    fit(module, splits["train"], procedure=how, epochs=epochs, seed=seed, device=device, progress=progress)
    shares = {split: accuracy(module, dataset, device=device) for split, dataset in splits.items()}
    given = {"test": held_out and held_out.to_text(), "procedure": procedure, "noise": noise, "start": start}
    options = {option: str(value) for option, value in given.items() if value is not None}
    return TrainResult(module, network.to_text(), samples.to_text(), epochs, seed, shares, options)


def fit(
    module: nn.Module,
    samples: Dataset,
    *,
    procedure: Procedure | None = None,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> None:
    """Train a network in place and leave it in eval mode; the same seed gives the same weights."""
    procedure = procedure or procedure_of(DEFAULT_PROCEDURES[samples.input_spec.kind])
    epochs = epochs or procedure.epochs
    labels = torch.from_numpy(samples.labels).to(device)
    module.to(device).train()
    optimizer = procedure.optimizer(_parameters(module, procedure))
    for group in optimizer.param_groups:
        group["lr"] *= group.get("share", 1.0)
    size = procedure.batch_size
    last = len(labels) - (size - 1 if procedure.drop_last else 0)
    if last < 1:
        raise ValueError(
            f"{len(labels)} samples do not fill one batch of {size}, and this procedure drops incomplete ones"
        )
    with threads(1), seeded_weights(seed):  # the seed is for dropout
        for epoch in range(epochs):
            rng = seeded_rng(seed, "training", epoch)
            order = rng.permutation(len(labels))
            losses = []
            for start in range(0, last, size):
                chosen = order[start : start + size]
                procedure.schedule(optimizer, epoch, start / len(labels), epochs)
                optimizer.zero_grad()
                loss = torch.zeros((), device=device)
                crops = cropping_spectrograms(module, rng) if procedure.crops_spectrograms else nullcontext()
                with crops:
                    for view in procedure.views:
                        loss = loss + _loss(module(view(samples, chosen, rng).to(device)), labels[chosen], procedure)
                torch.autograd.backward(loss)
                nn.utils.clip_grad_norm_(module.parameters(), procedure.max_gradient_norm)
                optimizer.step()
                losses.append(loss.item())
            if progress is not None:
                progress(epoch + 1, epochs, float(np.mean(losses)))
    module.cpu().eval()


def _parameters(module: nn.Module, procedure: Procedure) -> Iterable[nn.Parameter] | Iterable[dict[str, Any]]:
    """Return the parameters, in two groups if the head has a learning rate of its own."""
    if procedure.backbone_share == 1:
        return module.parameters()
    named = dict(module.named_parameters())
    head = [parameter for name, parameter in named.items() if name.startswith("head.")]
    rest = [parameter for name, parameter in named.items() if not name.startswith("head.")]
    if not head:
        raise ValueError(f"{type(module).__name__} has no part called `head`, which this procedure trains faster")
    return [{"params": rest, "share": procedure.backbone_share}, {"params": head, "share": 1.0}]


def _loss(logits: Tensor, labels: Tensor, procedure: Procedure) -> Tensor:
    if procedure.binary_loss:
        return F.binary_cross_entropy_with_logits(logits, F.one_hot(labels, logits.shape[1]).to(logits.dtype))
    return F.cross_entropy(logits, labels, label_smoothing=procedure.label_smoothing)


@torch.no_grad()
def accuracy(module: nn.Module, samples: Dataset, *, device: str = "cpu") -> float:
    """Return the accuracy of a network in eval mode, from 0 to 1."""
    module.to(device)
    right = 0
    for chosen in np.array_split(np.arange(len(samples.labels)), -(-len(samples.labels) // 256)):
        predicted = module(as_stored(samples, chosen).to(device)).argmax(1).cpu()
        right += int((predicted == torch.from_numpy(samples.labels[chosen])).sum())
    module.cpu()
    return right / len(samples.labels)


def start_from(module: nn.Module, path: Path) -> None:
    """Load trained weights into a network, except tensors of its head that have another shape.

    AMAuT for UrbanSound8K starts in this way from its weights for CochlScene, which has other classes.
    """
    own, stored = module.state_dict(), read_checkpoint(path)
    fitting = {name: tensor for name, tensor in stored.items() if name in own and own[name].shape == tensor.shape}
    unlike = [name for name in {*own, *stored} - {*fitting} if not name.startswith("head.")]
    if unlike:
        raise ValueError(
            f"{path} belongs to another network: {min(unlike)} differs; pass weights of the same architecture"
        )
    module.load_state_dict({**own, **fitting})


def save_weights(result: TrainResult, target: str | Path) -> Path:
    """Write the weights as safetensors into a folder or a file of that suffix, and a JSON file on the training."""
    path = Path(target)
    if path.suffix != ".safetensors":
        path = path / f"{Spec.parse(result.model).name}.safetensors"
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
        "accuracy": {split: round(share, 4) for split, share in result.accuracy.items()},
        "command": _command(result),
        "weights_digest": weights_digest(result.module),
    }
    path.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n")
    return path


def _command(result: TrainResult) -> str:
    words = ["holdfast", "train", result.data, "--model", result.model]
    for option, value in result.options.items():
        words += [f"--{option}", value]
    return shlex.join([*words, "--epochs", str(result.epochs), "--seed", str(result.seed)])


def _untrained(network: Spec, seed: int) -> nn.Module:
    """Return a network with random weights, unless its options say otherwise."""
    known = parameters_of(MODELS[network.name])
    untrained = {"trained": False, "seed": seed}
    missing = {name: value for name, value in untrained.items() if name in known and name not in network.options}
    module: nn.Module = network.build(MODELS, **missing)
    return module


def _splits(data: Spec) -> dict[str, Dataset]:
    """Return the splits of a data set; without splits all of it is for training."""
    known = get_args(annotation_of(DATASETS[data.name], "split"))
    if not known:
        return {"train": data.build(DATASETS)}
    return {split: data.build(DATASETS, split=split) for split in ("train", "validation", "test") if split in known}
