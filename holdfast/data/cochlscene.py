"""CochlScene: acoustic scenes, on which AMAuT for UrbanSound8K is trained first."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from holdfast.data.audio_files import ListedAudio, audio_files_in, folder_with
from holdfast.data.base import DATASETS
from holdfast.data.on_disk import check_split

FOLDERS = {"train": "Train", "validation": "Val", "test": "Test"}
SCENES = (
    *("Bus", "Cafe", "Car", "CrowdedIndoor", "Elevator", "Kitchen", "Park", "ResidentialArea", "Restaurant"),
    *("Restroom", "Street", "Subway", "SubwayStation"),
)


@DATASETS.register("cochlscene")
class CochlScene(ListedAudio):
    """76 115 clips of 10 s at 44.1 kHz in 13 scenes: train 60 855, validation 7573, test 7687; silent clips stay.

    AMAuT is trained on 4 s of each clip, at a random position (`--procedure amaut-cochlscene`); predictions are for the
    first `seconds`.
    """

    citation = "Jeong and Park, APSIPA ASC 2022"
    may_be_silent = True

    def __init__(
        self,
        split: Literal["train", "validation", "test"] = "test",
        *,
        folder: str | Path,
        sample_rate: int = 44_100,
        seconds: float = 4.0,
    ) -> None:
        check_split("cochlscene", split, FOLDERS)
        root = folder_with(folder, FOLDERS[split], "download and unpack CochlScene, Zenodo 7080122") / FOLDERS[split]
        unknown = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and entry.name not in SCENES)
        if unknown:
            raise ValueError(f"{root} has a folder {unknown[0]!r} that is no scene of CochlScene; unpack it again")
        rows = [(file, label) for label, scene in enumerate(SCENES) for file in audio_files_in(root, scene)]
        super().__init__(
            root,
            rows,
            name=f"cochlscene/{split}",
            sample_rate=sample_rate,
            samples=round(seconds * sample_rate),
            class_names=SCENES,
        )
