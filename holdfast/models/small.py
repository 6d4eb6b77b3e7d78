"""The reference networks for 32×32 images: batch, group and layer normalisation, weights in the package."""

from __future__ import annotations

from holdfast.models.base import MODELS, WEIGHTS, load_weights, seeded_weights
from holdfast.models.resnet import ResNet
from holdfast.models.vit import ViT

__all__ = ["digits_resnet", "digits_resnet_gn", "digits_vit"]


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
