"""ReefSet: recordings of coral reefs, in the seeded split of DHAuDS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.data.audio_files import PublishedAudio, folder_with
from holdfast.data.base import DATASETS
from holdfast.data.on_disk import check_split

INDEX = "reefset_annotations.json"


@DATASETS.register("reefset", alias="rs")
class ReefSet(PublishedAudio):
    """57 074 clips of 1.88 s at 16 kHz in 37 classes, alphabetical: of each 70 % train (39 937), 30 % test (17 137)."""

    citation = "Williams et al., Zenodo 11071202"

    def __init__(self, split: Literal["train", "test"] = "test", *, folder: str | Path) -> None:
        check_split("reefset", split, ("train", "test"))
        root = folder_with(folder, INDEX, "download and unpack ReefSet_v1.0, Zenodo 11071202")
        index = json.loads((root / INDEX).read_text())
        if not isinstance(index, list):
            raise ValueError(f"{root / INDEX} is not a list of annotations; download it again")
        index.sort(key=lambda row: int(row["id"]))
        labels = [str(row["label"]) for row in index]
        names = sorted(set(labels))
        chosen = split_by_label(labels)[split == "test"]
        rows = [(f"full_dataset/{index[row]['file_name']}", names.index(labels[row])) for row in chosen]
        super().__init__("rs", split, root, rows, class_names=names)


def split_by_label(
    labels: Sequence[str] | NDArray[np.str_], *, test_share: float = 0.3, seed: int = 123456
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and test rows with the same share of every label, labels in alphabetical order.

    With the defaults this is the split of ReefSet in DHAuDS (Shao et al., arXiv 2511.18421), row for row: every label
    is shuffled by the same legacy seed, so the rows do not depend on the version of scikit-learn.

    Args:
        labels: one for each row.
        test_share: share of every label that goes to the test split.
        seed: of the shuffle.

    >>> train, test = split_by_label(["wave"] * 7 + ["boat"] * 3)
    >>> train.tolist(), test.tolist()
    ([7, 8, 6, 5, 2, 1], [9, 4, 3, 0])
    """
    train, test = [], []
    for label in np.unique(labels):
        rows = np.flatnonzero(np.asarray(labels) == label)
        shuffled = rows[np.random.RandomState(seed).permutation(len(rows))]
        count = ceil(test_share * len(rows))
        test.append(shuffled[:count])
        train.append(shuffled[count:])
    return np.concatenate(train), np.concatenate(test)
