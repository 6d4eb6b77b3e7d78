"""Networks of torchvision with its weights, in the one file that imports it."""

from __future__ import annotations

from torch import nn

from holdfast.models.base import MODELS
from holdfast.models.normalised import Normalised

__all__ = ["torchvision"]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@MODELS.register("torchvision")
def torchvision(architecture: str = "resnet50", *, weights: str | None = "IMAGENET1K_V1") -> nn.Module:
    """A network of torchvision behind its channel normalisation, for images in [0, 1]; `weights` as it names them."""
    try:
        from torchvision import models  # type: ignore[import-not-found, unused-ignore]
    except (ImportError, RuntimeError) as error:  # built for another torch, it raises as it registers its operators
        raise ImportError(
            f"torchvision cannot be imported ({error}); `pip install torchvision` in the version for your torch"
        ) from error
    try:
        network: nn.Module = models.get_model(architecture, weights=weights)
    except (ValueError, KeyError) as error:
        raise ValueError(f"torchvision has no {architecture} with weights {weights}: {error}") from error
    return Normalised(network.eval(), IMAGENET_MEAN, IMAGENET_STD)
