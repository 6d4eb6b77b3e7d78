"""The reference networks for 32×32 images and one-second words, and a small one for custom audio data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.models.amaut import AMAUT_VERSIONS, AMAuT, AMAuTVersion
from holdfast.models.base import MODELS, WEIGHTS, with_weights
from holdfast.models.conmix import CONMIX_VERSIONS, CoNMix
from holdfast.models.resnet import ResNet
from holdfast.models.vit import ViT

# Of both small audio networks, which have 0.2 million weights.
SIZES: dict[str, Any] = {
    "width": 16,
    "token_width": 64,
    "depth": 2,
    "heads": 4,
    "hidden": 128,
    "head_widths": (128, 64),
}


@MODELS.register("digits_resnet")
def digits_resnet(*, trained: bool = True, seed: int = 0) -> ResNet:
    """A ResNet with batch normalisation, trained on the embedded digits."""
    return with_weights(lambda: ResNet(norm="batch"), seed, WEIGHTS / "digits_resnet.safetensors" if trained else None)


@MODELS.register("digits_resnet_gn")
def digits_resnet_gn(*, trained: bool = True, seed: int = 0) -> ResNet:
    """The same ResNet with group normalisation, trained on the embedded digits."""
    return with_weights(
        lambda: ResNet(norm="group"), seed, WEIGHTS / "digits_resnet_gn.safetensors" if trained else None
    )


@MODELS.register("digits_vit")
def digits_vit(*, trained: bool = True, seed: int = 0) -> ViT:
    """A vision transformer with layer normalisation, trained on the embedded digits."""
    return with_weights(ViT, seed, WEIGHTS / "digits_vit.safetensors" if trained else None)


@MODELS.register("keywords_amaut")
def keywords_amaut(*, trained: bool = True, seed: int = 0) -> AMAuT:
    """A small AMAuT with the front-end for Speech Commands, trained on the embedded keywords."""
    return with_weights(lambda: AMAuT(_version(24)), seed, WEIGHTS / "keywords_amaut.safetensors" if trained else None)


@MODELS.register("small_amaut")
def small_amaut(
    *,
    num_classes: int,
    sample_rate: int = 16_000,
    seconds: float = 1.0,
    weights: str | Path | None = None,
    seed: int = 0,
) -> AMAuT:
    """An AMAuT of 0.2 million weights for mono clips of any rate and length, to be trained on custom audio data.

    Its front-end has the durations of the one for Speech Commands; without a safetensors file the weights are random.

    Args:
        num_classes: number of outputs.
        sample_rate: of the clips, in Hz.
        seconds: length of a clip.
        weights: safetensors file; None: random weights.
        seed: of random weights.

    >>> small_amaut(num_classes=10, sample_rate=8_000).front_end.hop
    78
    """
    return with_weights(lambda: AMAuT(_version(num_classes, sample_rate, seconds)), seed, weights)


@MODELS.register("small_conmix")
def small_conmix(
    *,
    num_classes: int,
    sample_rate: int = 16_000,
    seconds: float = 1.0,
    weights: str | Path | None = None,
    seed: int = 0,
) -> CoNMix:
    """A CoNMix++ of 0.2 million weights for mono clips of any rate and length, to be trained on custom audio data.

    Its front-end is the one for Speech Commands; without a safetensors file the weights are random.

    Args:
        num_classes: number of outputs.
        sample_rate: of the clips, in Hz.
        seconds: length of a clip.
        weights: safetensors file; None: random weights.
        seed: of random weights.
    """
    published = CONMIX_VERSIONS["sc2"]
    version = replace(
        published,
        sample_rate=sample_rate,
        samples=round(seconds * sample_rate),
        num_classes=num_classes,
        hop=round(published.hop * seconds * sample_rate / published.samples),  # as many frames
        blocks=(1, 1, 1),
        **SIZES,
    )
    return with_weights(lambda: CoNMix(version), seed, weights)


def _version(num_classes: int, sample_rate: int = 16_000, seconds: float = 1.0) -> AMAuTVersion:
    published = AMAUT_VERSIONS["sc2"]
    ratio = sample_rate / published.sample_rate
    return replace(
        published,
        sample_rate=sample_rate,
        samples=round(seconds * sample_rate),
        num_classes=num_classes,
        fft=2 * round(published.fft * ratio / 2),
        window=round(published.window * ratio),
        hop=round(published.hop * ratio),
        extra_blocks=(1, 1),
        **SIZES,
    )
