"""The embedded images: the handwritten digits of scikit-learn, as 32×32 RGB."""

from __future__ import annotations

from typing import Literal

import numpy as np
from PIL import Image

from holdfast.data.base import DATASETS, InMemoryImages
from holdfast.data.on_disk import check_split


@DATASETS.register("digits")
class Digits(InMemoryImages):
    """1797 handwritten digits (UCI optical recognition), enlarged from 8×8 to 32×32 and split by index.

    Odd indices are the test split (898); of the even ones every fourth is validation (224), the rest is training.

    >>> len(Digits("train").labels), len(Digits("validation").labels), len(Digits("test").labels)
    (675, 224, 898)
    """

    citation = "Alpaydin & Kaynak, UCI 1998"

    def __init__(self, split: Literal["train", "validation", "test"] = "test") -> None:
        from sklearn.datasets import load_digits  # slow to import, and most users bring their own data

        index = np.arange(1797)
        splits = {
            "train": index[(index % 2 == 0) & (index % 8 != 6)],
            "validation": index[index % 8 == 6],
            "test": index[index % 2 == 1],
        }
        check_split("digits", split, splits)
        small, labels = load_digits(return_X_y=True)
        chosen = splits[split]
        grey = np.round(small[chosen].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
        large = [Image.fromarray(image).resize((32, 32), Image.Resampling.BICUBIC) for image in grey]
        images = np.repeat(np.stack([np.asarray(image) for image in large])[..., None], 3, axis=-1)
        labels = labels[chosen].astype(np.int64)
        super().__init__(images, labels, name=f"digits/{split}", flips=False)  # a mirrored digit is not a digit
