"""Where samples come from."""

from holdfast.data.base import DATASETS, Dataset, InMemoryImages
from holdfast.data.digits import Digits

__all__ = ["DATASETS", "Dataset", "Digits", "InMemoryImages"]
