"""VocalSound: laughter, sighs, coughs and other human vocalisations."""

from __future__ import annotations

import csv
import json
from pathlib import Path, PurePosixPath
from typing import Literal

from holdfast.data.audio_files import PublishedAudio, folder_with
from holdfast.data.base import DATASETS
from holdfast.data.on_disk import check_split

LISTS = {"train": "tr", "validation": "val", "test": "te"}
CLASSES = "class_labels_indices_vs.csv"


@DATASETS.register("vocalsound", alias="vs")
class VocalSound(PublishedAudio):
    """20 977 clips of up to 10 s at 16 kHz (`vs_release_16k.zip`): train 15 531, validation 1855, test 3591."""

    citation = "Gong et al., ICASSP 2022"

    def __init__(self, split: Literal["train", "validation", "test"] = "test", *, folder: str | Path) -> None:
        check_split("vocalsound", split, LISTS)
        root = folder_with(folder, CLASSES, "download and unpack vs_release_16k.zip")
        listed, names = listed_in(root, split)
        super().__init__("vs", split, root, [(f"audio_16k/{file}", label) for file, label in listed], class_names=names)


def listed_in(root: Path, split: str) -> tuple[list[tuple[str, int]], list[str]]:
    """Return file and label of the clips of a split, and the names of the classes in order of their labels."""
    with (root / CLASSES).open(newline="") as file:
        classes = sorted((int(row["index"]), row["mid"], row["display_name"]) for row in csv.DictReader(file))
    label_of = {code: label for label, code, _ in classes}
    listed = json.loads((root / "datafiles" / f"{LISTS[split]}.json").read_text())["data"]
    # The lists contain paths on the authors' machine.
    rows = [(PurePosixPath(row["wav"]).name, label_of[row["labels"]]) for row in listed]
    return rows, [name for _, _, name in classes]
