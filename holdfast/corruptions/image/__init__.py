"""Corruptions of images; importing this registers them."""

from holdfast.corruptions.image import (
    blur,
    digital,
    elastic,
    frost,
    glass,
    motion,
    noise,
    spatter,
    weather,
    zoom,
)

__all__ = [
    "blur",
    "digital",
    "elastic",
    "frost",
    "glass",
    "motion",
    "noise",
    "spatter",
    "weather",
    "zoom",
]
