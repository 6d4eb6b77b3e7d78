"""Speech Commands v2: 35 spoken words."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from holdfast.data.audio_files import PublishedAudio, audio_files_in, folder_with
from holdfast.data.base import DATASETS
from holdfast.data.on_disk import check_split

# In the arbitrary order of the official code of DHAuDS, which the official weights were trained with.
CLASS_NAMES = (
    *("backward", "follow", "five", "bed", "zero", "on", "learn", "two", "house", "tree", "dog", "stop", "seven"),
    *("eight", "down", "six", "forward", "cat", "right", "visual", "four", "wow", "no", "nine", "off", "three", "left"),
    *("marvin", "yes", "up", "sheila", "happy", "bird", "go", "one"),
)
LISTS = {"test": "testing_list.txt", "validation": "validation_list.txt"}


@DATASETS.register("speech_commands", alias="sc2")
class SpeechCommands(PublishedAudio):
    """105 829 clips of 1 s at 16 kHz: test (11 005) and validation (9981) by the published lists, train is the rest."""

    citation = "Warden, arXiv 1804.03209"

    def __init__(self, split: Literal["train", "validation", "test"] = "test", *, folder: str | Path) -> None:
        check_split("speech_commands", split, ("train", "validation", "test"))
        root = folder_with(folder, LISTS["test"], "download and unpack speech_commands_v0.02.tar.gz")
        listed = {name: (root / file).read_text().split() for name, file in LISTS.items()}
        files = listed.get(split)
        if files is None:
            others = {file for files in listed.values() for file in files}
            words = (audio_files_in(root, word) for word in sorted(CLASS_NAMES))
            files = [file for spoken in words for file in spoken if file not in others]
        rows = [(file, CLASS_NAMES.index(file.split("/")[0])) for file in files]
        super().__init__("sc2", split, root, rows, class_names=CLASS_NAMES)
