"""CIFAR-10 and CIFAR-100, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from holdfast.data.base import DATASETS, InMemoryImages
from holdfast.data.cifar_files import CifarVersion, read_cifar

CIFAR10 = CifarVersion(
    name="cifar10",
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    archive="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    binary_files={"train": tuple(f"data_batch_{batch}.bin" for batch in range(1, 6)), "test": ("test_batch.bin",)},
    label_bytes=1,
    label_column="label",
    subfolders=("cifar-10-batches-bin", "plain_text"),
    pickle_folder="cifar-10-batches-py",
    pickle_files={"train": "data_batch_1", "test": "test_batch"},
)

CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = CifarVersion(
    name="cifar100",
    class_names=tuple(CIFAR100_NAMES.split()),
    archive="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    binary_files={"train": ("train.bin",), "test": ("test.bin",)},
    label_bytes=2,
    label_column="fine_label",
    subfolders=("cifar-100-binary", "cifar100"),
    pickle_folder="cifar-100-python",
    pickle_files={"train": "train", "test": "test"},
)


@DATASETS.register("cifar10")
class Cifar10(InMemoryImages):
    """32×32 images in ten classes (50 000 train, 10 000 test), read from `folder` in any published layout.

    Layouts are the binary version, Parquet files as on Hugging Face (`pip install 'holdfast[parquet]'`), or `test.npz`
    with images and labels. The digest covers every pixel and label, so it is the same for all of them.
    """

    citation = "Krizhevsky, University of Toronto 2009"

    def __init__(self, split: Literal["train", "test"] = "test", *, folder: str | Path = "data/cifar10") -> None:
        images, labels = read_cifar(CIFAR10, folder, split)
        super().__init__(images, labels, name=f"cifar10/{split}", class_names=CIFAR10.class_names)


@DATASETS.register("cifar100")
class Cifar100(InMemoryImages):
    """32×32 images in a hundred classes (50 000 train, 10 000 test), read from `folder` like `cifar10`."""

    citation = "Krizhevsky, University of Toronto 2009"

    def __init__(self, split: Literal["train", "test"] = "test", *, folder: str | Path = "data/cifar100") -> None:
        images, labels = read_cifar(CIFAR100, folder, split)
        super().__init__(images, labels, name=f"cifar100/{split}", class_names=CIFAR100.class_names)
