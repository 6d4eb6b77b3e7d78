"""Where samples come from."""

from holdfast.data.base import DATASETS, Dataset, InMemoryImages
from holdfast.data.cifar import Cifar10, Cifar100
from holdfast.data.cifar_c import CifarC
from holdfast.data.digits import Digits
from holdfast.data.image_folder import ImageFolder
from holdfast.data.imagenet_c import ImageNetC
from holdfast.data.splits import split_by_label

__all__ = [
    "DATASETS",
    "Cifar10",
    "Cifar100",
    "CifarC",
    "Dataset",
    "Digits",
    "ImageFolder",
    "ImageNetC",
    "InMemoryImages",
    "split_by_label",
]
