"""Corruptions of images; importing this registers them, in the order in which tables print them."""

from holdfast.corruptions.image import noise, blur, digital  # isort: skip

__all__ = ["blur", "digital", "noise"]
