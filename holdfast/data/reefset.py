"""ReefSet: recordings of coral reefs, in the seeded split of DHAuDS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from holdfast.data.audio_files import PublishedAudio, folder_with
from holdfast.data.base import DATASETS
from holdfast.data.splits import split_by_label

INDEX = "reefset_annotations.json"


@DATASETS.register("reefset", alias="rs")
class ReefSet(PublishedAudio):
    """57 074 clips of 1.88 s at 16 kHz in 37 classes, alphabetical: of each 70 % train (39 937), 30 % test (17 137)."""

    citation = "Williams et al., Zenodo 11071202"

    def __init__(self, split: Literal["train", "test"] = "test", *, folder: str | Path) -> None:
        if split not in ("train", "test"):
            raise ValueError(f"reefset has no split {split!r}; choose train or test")
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
