"""Choose by name which normalisation layers are not trained."""

from __future__ import annotations

import re

from torch import nn

from holdfast.blocks.wrapping import affine_parameters

# The layers near the output of a ResNet and of a transformer with twelve blocks, which SAR and SoTTA do not train.
TOP_LAYERS = r"layer4|blocks\.(9|10|11)|norm\.|^norm$"


def affine_parameters_except(network: nn.Module, frozen_layers: str | None) -> list[nn.Parameter]:
    """Return weight and bias of every normalisation layer whose name does not match the pattern; None matches nothing.

    >>> network = nn.ModuleDict({"layer3": nn.BatchNorm2d(8), "layer4": nn.BatchNorm2d(16)})
    >>> [tuple(weights.shape) for weights in affine_parameters_except(network, TOP_LAYERS)]
    [(8,), (8,)]
    """
    parameters = affine_parameters(network)
    if frozen_layers is None:
        return parameters
    parts = [part for name, part in network.named_modules() if re.search(frozen_layers, name)]
    frozen = {id(parameter) for part in parts for parameter in part.parameters(recurse=False)}
    trained = [parameter for parameter in parameters if id(parameter) not in frozen]
    if not trained:
        raise ValueError(
            f"frozen_layers={frozen_layers!r} leaves no normalisation layer to train; pass a pattern that fits the "
            "layer names of this model, or None"
        )
    return trained
