"""Corruptions of images and audio, by name."""

from holdfast.corruptions import audio, image
from holdfast.corruptions.base import CORRUPTION_VERSION, CORRUPTIONS, FAMILIES, Corruption, corruption, family_of
from holdfast.corruptions.copies import corrupt_files
from holdfast.corruptions.image.frost import frost_from
from holdfast.corruptions.sheet import audio_sheet, contact_sheet
from holdfast.corruptions.storage import store_as_jpeg

__all__ = [
    "CORRUPTIONS",
    "CORRUPTION_VERSION",
    "FAMILIES",
    "Corruption",
    "audio",
    "audio_sheet",
    "contact_sheet",
    "corrupt_files",
    "corruption",
    "family_of",
    "frost_from",
    "image",
    "store_as_jpeg",
]
