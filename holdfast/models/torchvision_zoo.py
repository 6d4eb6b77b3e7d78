"""Networks of torchvision with its weights and its preprocessing, in the one file that imports it."""

from __future__ import annotations

from typing import Any

from torch import nn

from holdfast.models.base import MODELS, seeded_weights
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing

UNTRAINED = Preprocessing((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), (224, 224), 256)


@MODELS.register("torchvision")
def torchvision(architecture: str = "resnet50", *, weights: str | None = "IMAGENET1K_V1") -> nn.Module:
    """A network of torchvision behind its normalisation, for images in [0, 1]: `torchvision:resnet50/IMAGENET1K_V2`."""
    try:
        from torchvision import models  # type: ignore[import-not-found, unused-ignore]
    except (ImportError, RuntimeError) as error:  # built for another torch, it raises as it registers its operators
        raise ImportError(
            f"torchvision cannot be imported ({error}); `pip install torchvision` in the version for your torch"
        ) from error
    architecture, slash, chosen = architecture.partition("/")
    weights = chosen if slash else weights
    try:
        with seeded_weights(0):
            network: nn.Module = models.get_model(architecture, weights=weights)
        pretrained = None if weights is None else models.get_model_weights(architecture)[weights]
    except (ValueError, KeyError) as error:
        raise ValueError(f"torchvision has no {architecture} with weights {weights}: {error}") from error
    return Normalised.behind(
        network.eval(), UNTRAINED if pretrained is None else _preprocessing(pretrained.transforms())
    )


def _preprocessing(preset: Any) -> Preprocessing:
    crop, resize = (
        int(size[0] if isinstance(size, (list, tuple)) else size) for size in (preset.crop_size, preset.resize_size)
    )
    return Preprocessing(tuple(preset.mean), tuple(preset.std), (crop, crop), resize, preset.interpolation.value)
