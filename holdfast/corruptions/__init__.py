"""What happens to a sample."""

from holdfast.corruptions import image
from holdfast.corruptions.base import CORRUPTIONS, FAMILIES, Corruption, corruption, family_of
from holdfast.corruptions.sheet import contact_sheet, corrupt_files
from holdfast.corruptions.storage import store_as_jpeg

__all__ = [
    "CORRUPTIONS",
    "FAMILIES",
    "Corruption",
    "contact_sheet",
    "corrupt_files",
    "corruption",
    "family_of",
    "image",
    "store_as_jpeg",
]
