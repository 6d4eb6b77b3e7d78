"""Networks of timm with its weights and its preprocessing, in the one file that imports it."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from holdfast.models.base import MODELS, seeded_weights
from holdfast.models.checkpoint import load_checkpoint
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing


@MODELS.register("timm")
def timm(
    architecture: str,
    *,
    pretrained: bool = True,
    weights: str | None = None,
    arguments: dict[str, Any] | None = None,
) -> nn.Module:
    """A classifier of timm behind its normalisation, for images in [0, 1]: `timm:resnet50.a1_in1k`; extra `timm`.

    `weights` is a checkpoint of your own in place of the published one; `arguments` go to `timm.create_model`.

    Args:
        architecture: name in timm, with the tag of its weights.
        pretrained: whether published weights are loaded.
        weights: your own checkpoint, in place of the published one.
        arguments: of `timm.create_model`, by name.
    """
    try:
        import timm as zoo
        from timm.data.config import resolve_model_data_config
    except (ImportError, RuntimeError) as error:  # torchvision, which it imports, raises either
        missing = "torchvision" if "torchvision" in str(error) else getattr(error, "name", None) or "timm"
        raise ImportError(f"timm needs {missing} ({error}): pip install 'holdfast[timm]' {missing}") from error
    try:
        with seeded_weights(0):
            network = zoo.create_model(architecture, pretrained=pretrained and weights is None, **(arguments or {}))
    except RuntimeError as error:
        close = zoo.list_models(f"*{architecture.partition('.')[0]}*")[:5]
        hint = f"; similar: {', '.join(close)}" if close else "; see timm.list_models()"
        raise ValueError(f"timm cannot make {architecture!r}: {error}{hint}") from error
    if weights is not None:
        load_checkpoint(network, weights)
    return Normalised.behind(network.eval(), _preprocessing(resolve_model_data_config(network)))


def _preprocessing(config: dict[str, Any]) -> Preprocessing:
    _, height, width = config["input_size"]
    return Preprocessing(
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        crop=(height, width),
        resize=math.floor(min(height, width) / config["crop_pct"]),
        interpolation=config["interpolation"] if config["interpolation"] != "random" else "bilinear",
    )
