"""Training procedures: ours for the reference networks, and the published ones of AMAuT, HuBERT and CoNMix++."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from holdfast.audio import FULL_NAMES, Recording
from holdfast.corruptions.audio import demand, environments
from holdfast.registry import Registry
from holdfast.training.augmentation import AudioView, View, flipped_crops, moved

Schedule: TypeAlias = Callable[
    [Optimizer, int, float, int], None
]  # epoch, share of the epoch that is done, epochs in total

PEAK_LR = 1e-3
WARMUP_SHARE = 0.1  # of all steps, before the cosine decay
WEIGHT_DECAY = 0.05
PUBLISHED_LR = 1e-3
PUBLISHED_SHIFT_SHARE = 0.17
CONMIX_LR = 1e-2
CIFAR_LR = 0.1


@dataclass(frozen=True)
class Procedure:
    """How to train; every view is a separate forward pass, and their losses are summed."""

    epochs: int
    views: tuple[View, ...]
    optimizer: Callable[[Iterable[nn.Parameter] | Iterable[dict[str, Any]]], Optimizer]
    schedule: Schedule
    batch_size: int = 32
    label_smoothing: float = 0.0
    max_gradient_norm: float = math.inf
    drop_last: bool = False  # omit the last batch if it is not full
    backbone_share: float = 1.0  # of the learning rate, for everything but the head
    binary_loss: bool = False  # a logistic loss for each class instead of one softmax
    crops_spectrograms: bool = False  # of networks that turn audio into images


Noises: TypeAlias = Callable[..., tuple[Recording, ...]]  # the recordings of the named environments

PROCEDURES: Registry[Callable[[Noises], Procedure]] = Registry("training procedure", "training")


def procedure_of(name: str, *, noise: str | Path | None = None) -> Procedure:
    """Return a procedure by name; `noise` is the folder of the DEMAND corpus, by default embedded noise.

    >>> procedure_of("amaut-sc2").epochs, len(procedure_of("amaut-sc2").views)
    (50, 4)
    """
    return PROCEDURES[name](lambda *labels: _noises(noise, labels))


def _noises(folder: str | Path | None, labels: tuple[str, ...]) -> tuple[Recording, ...]:
    return tuple(environments("training", labels) if folder is None else demand(folder, labels))


def _adamw(parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]]) -> Optimizer:
    return AdamW(parameters, weight_decay=WEIGHT_DECAY)


def _warm_cosine(peak: float) -> Schedule:
    def set_up(optimizer: Optimizer, epoch: int, share: float, epochs: int) -> None:
        optimizer.param_groups[0]["lr"] = learning_rate((epoch + share) / epochs, peak)

    return set_up


def learning_rate(done_share: float, peak: float = PEAK_LR) -> float:
    """Return the learning rate after this share of the steps: linear warm-up, then cosine decay.

    >>> learning_rate(0.0), learning_rate(WARMUP_SHARE) == PEAK_LR, learning_rate(1.0)
    (0.0, True, 0.0)
    """
    if done_share < WARMUP_SHARE:
        return peak * done_share / WARMUP_SHARE
    return peak * 0.5 * (1 + math.cos(math.pi * (done_share - WARMUP_SHARE) / (1 - WARMUP_SHARE)))


def published_decay(cardinality: int, gamma: float = 10.0, tail: int = 1, peak: float = PUBLISHED_LR) -> Schedule:
    """Return the schedule of DHAuDS: momentum 0.9 and weight decay from the second epoch on, and a decaying rate.

    As in the official code, the first two epochs have the same rate, and Nesterov momentum is never used.
    """

    def set_up(optimizer: Optimizer, epoch: int, _share: float, _epochs: int) -> None:
        if epoch > 0:
            done = min(epoch, cardinality - tail) - 1
            rate = peak * (1 + gamma * done / cardinality) ** -0.75
            for group in optimizer.param_groups:
                group.update(lr=rate * group.get("share", 1.0), momentum=0.9, weight_decay=1e-3)

    return set_up


@PROCEDURES.register("images")
def _images(_noises: Noises) -> Procedure:
    """Ours for the embedded digits: AdamW on slightly moved images."""
    return Procedure(80, (moved,), _adamw, _warm_cosine(PEAK_LR), max_gradient_norm=1.0)


@PROCEDURES.register("cifar10", alias="cifar100")
def _cifar10(_noises: Noises) -> Procedure:
    """Ours for CIFAR: SGD on flipped crops, in few epochs so that a processor will do."""

    def sgd(parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]]) -> Optimizer:
        return SGD(parameters, CIFAR_LR, momentum=0.9, nesterov=True, weight_decay=5e-4)

    return Procedure(10, (flipped_crops,), sgd, _warm_cosine(CIFAR_LR), batch_size=128)


@PROCEDURES.register("audio", alias="sounds")
def _audio(noises: Noises) -> Procedure:
    """Ours for the embedded keywords: AdamW on shifted clips, half of them with background noise."""
    view = AudioView(
        shift_share=0.1,
        noises=noises("OMEETING", "DWASHING", "PCAFETER", "TBUS"),
        noise_snr_db=(20.0, 50.0),
        noise_share=0.5,
        noise_in_silence=True,
    )
    return Procedure(14, (view,), _adamw, _warm_cosine(PEAK_LR), max_gradient_norm=1.0)


def _amaut(
    epochs: int, cardinality: int, *views: AudioView, batch_size: int = 32, drop_last: bool = False
) -> Procedure:
    return Procedure(
        epochs,
        (AudioView(shift_share=PUBLISHED_SHIFT_SHARE), *views),
        lambda parameters: SGD(parameters, PUBLISHED_LR),
        published_decay(cardinality),
        batch_size,
        label_smoothing=0.1,
        drop_last=drop_last,
    )


def _faint(noises: Noises, *labels: str, snr_db: float = 50.0) -> list[AudioView]:
    """Return a view with faint noise of each environment."""
    return [AudioView(noises=noises(label), noise_snr_db=(snr_db, snr_db)) for label in labels]


def _hubert(epochs: int, peak: float, *, tail: int = 1, batch_size: int = 32, binary_loss: bool = False) -> Procedure:
    return Procedure(
        epochs,
        (AudioView(shift_share=PUBLISHED_SHIFT_SHARE),),
        lambda parameters: SGD(parameters, peak),
        published_decay(50, 30.0, tail, peak),
        batch_size,
        label_smoothing=0.0 if binary_loss else 0.1,
        binary_loss=binary_loss,
    )


def _conmix(epochs: int, batch_size: int) -> Procedure:
    # The official scheduler fires once, after the first epoch, where it leaves the rate as it is. The last epoch is
    # kept, where the official code keeps the best on Speech Commands.
    return Procedure(
        epochs,
        (AudioView(shift_share=0.25),),
        lambda parameters: SGD(parameters, CONMIX_LR),
        published_decay(1, 0.0, 0, CONMIX_LR),
        batch_size,
        label_smoothing=0.1,
        backbone_share=0.1,
        crops_spectrograms=True,
    )


UNIFORM = AudioView(uniform_level=0.015)
# By network and data set. AMAuT for UrbanSound8K starts from its weights for CochlScene, and its noise is DEMAND at
# 48 kHz; HuBERT on ReefSet has a logistic loss for each class.
PUBLISHED: dict[str, Callable[[Noises], Procedure]] = {
    "amaut-sc2": lambda noises: _amaut(50, 50, *_faint(noises, "OMEETING", "DWASHING", "PCAFETER")),
    "amaut-rs": lambda noises: _amaut(15, 50, *_faint(noises, "DWASHING", snr_db=55.0), batch_size=33),
    "amaut-vs": lambda noises: _amaut(35, 80, *_faint(noises, "OMEETING", "TBUS", "DWASHING")),
    "amaut-us8": lambda noises: _amaut(30, 40, UNIFORM, *_faint(noises, "NRIVER"), drop_last=True),
    "hubert-sc2": lambda _: _hubert(30, 8e-4),
    "hubert-rs": lambda _: _hubert(60, 5e-4, tail=20, batch_size=33, binary_loss=True),
    "hubert-vs": lambda _: _hubert(14, 8e-4),
    "hubert-us8": lambda _: _hubert(15, 5e-4, tail=20, batch_size=33),
    "conmix-sc2": lambda _: _conmix(20, 64),
    "conmix-rs": lambda _: _conmix(15, 63),
}
for _name, _procedure in PUBLISHED.items():
    _network, _, _data = _name.partition("-")
    PROCEDURES.register(f"{_network}-{FULL_NAMES[_data]}", alias=_name)(_procedure)
PROCEDURES.register("amaut-cochlscene")(lambda _: _amaut(30, 40, UNIFORM))
