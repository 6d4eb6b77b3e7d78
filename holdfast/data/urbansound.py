"""UrbanSound8K: ten classes of urban audio, in the split of DHAuDS."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

from holdfast.data.audio_files import PublishedAudio, folder_with
from holdfast.data.base import DATASETS
from holdfast.data.on_disk import check_split

CLASS_NAMES = (
    *("air_conditioner", "car_horn", "children_playing", "dog_bark", "drilling", "engine_idling", "gun_shot"),
    *("jackhammer", "siren", "street_music"),
)
FOLDS = {"train": range(1, 8), "test": range(8, 11)}
INDEX = "metadata/UrbanSound8K.csv"


@DATASETS.register("urbansound8k", alias="us8")
class UrbanSound8K(PublishedAudio):
    """8732 clips of up to 4 s: folds 1 to 7 train (6273), folds 8 to 10 test (2459), one fold after the other.

    At 44.1 kHz as in DHAuDS (Shao et al., arXiv 2511.18421), whose HuBERT takes 16 kHz. A few files are in formats that
    need the extra `audio`.
    """

    citation = "Salamon et al., ACM MM 2014"

    def __init__(
        self, split: Literal["train", "test"] = "test", *, folder: str | Path, sample_rate: int = 44_100
    ) -> None:
        check_split("urbansound8k", split, FOLDS)
        root = folder_with(folder, INDEX, "download and unpack UrbanSound8K, Zenodo 1203745")
        rows = [(f"audio/{file}", label) for file, label in listed_in(root / INDEX, split)]
        super().__init__("us8", split, root, rows, class_names=CLASS_NAMES, sample_rate=sample_rate)


def listed_in(index: Path, split: str) -> list[tuple[str, int]]:
    """Return file and label of the clips of a split, one fold after the other."""
    with index.open(newline="") as file:
        rows = [(int(row["fold"]), row["slice_file_name"], int(row["classID"])) for row in csv.DictReader(file)]
    return [(f"fold{fold}/{name}", label) for fold in FOLDS[split] for own, name, label in rows if own == fold]
