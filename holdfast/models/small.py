"""The reference networks for 32×32 images and for words of one second; their weights are in the package."""

from __future__ import annotations

from dataclasses import replace

from holdfast.models.amaut import AMAUT_VERSIONS, AMAuT
from holdfast.models.base import MODELS, WEIGHTS, load_weights, seeded_weights
from holdfast.models.resnet import ResNet
from holdfast.models.vit import ViT

__all__ = ["digits_resnet", "digits_resnet_gn", "digits_vit", "keywords_amaut"]


@MODELS.register("digits_resnet")
def digits_resnet(*, trained: bool = True, seed: int = 0) -> ResNet:
    """A ResNet with batch normalisation, trained on the embedded digits."""
    with seeded_weights(seed):
        network = ResNet(norm="batch")
    return load_weights(network, WEIGHTS / "digits_resnet.safetensors") if trained else network


@MODELS.register("digits_resnet_gn")
def digits_resnet_gn(*, trained: bool = True, seed: int = 0) -> ResNet:
    """The same ResNet with group normalisation, trained on the embedded digits."""
    with seeded_weights(seed):
        network = ResNet(norm="group")
    return load_weights(network, WEIGHTS / "digits_resnet_gn.safetensors") if trained else network


@MODELS.register("digits_vit")
def digits_vit(*, trained: bool = True, seed: int = 0) -> ViT:
    """A vision transformer with layer normalisation, trained on the embedded digits."""
    with seeded_weights(seed):
        network = ViT()
    return load_weights(network, WEIGHTS / "digits_vit.safetensors") if trained else network


@MODELS.register("keywords_amaut")
def keywords_amaut(*, trained: bool = True, seed: int = 0) -> AMAuT:
    """A small AMAuT behind the front-end for Speech Commands, trained on the embedded keywords."""
    version = replace(
        AMAUT_VERSIONS["sc2"],
        num_classes=24,
        width=16,
        extra_blocks=(1, 1),
        head_widths=(128, 64),
        token_width=64,
        depth=2,
        heads=4,
        hidden=128,
    )
    with seeded_weights(seed):
        network = AMAuT(version)
    return load_weights(network, WEIGHTS / "keywords_amaut.safetensors") if trained else network
