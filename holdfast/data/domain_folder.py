"""Domain folders, as PACS, OfficeHome, DomainNet and VisDA are published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.data.base import DATASETS
from holdfast.data.image_folder import class_folders, image_files
from holdfast.data.natural import DomainImages, ImageRecord, chosen_domains
from holdfast.data.on_disk import folder_at

REMEDY = "pass a folder that holds <domain>/<class>/<image>"


@DATASETS.register("domain_folder")
class DomainFolder(DomainImages):
    """Images in `<domain>/<class>/<image>` folders: PACS, OfficeHome, DomainNet, VisDA; each domain is one of a stream.

    Classes are sorted by name over all domains, whether `domains` chooses some of them or not. A file
    `<domain>_list.txt` with a path and a label in each line, as DomainNet-126 has them, chooses images and labels.
    Resizing and cropping are those of `image_folder`.
    """

    citation = "Li et al., ICCV 2017 (PACS); Peng et al., ICCV 2019 (DomainNet)"

    def __init__(self, *, folder: str | Path, domains: Sequence[str] | None = None, **pixels: Any) -> None:
        folder = folder_at(folder, REMEDY)
        there = class_folders(folder)
        lists = {domain: folder / f"{domain}_list.txt" for domain in there}
        listed = {domain: list(_lines(path)) for domain, path in lists.items() if path.is_file()}
        unlisted = sorted({name for domain in there for name in class_folders(folder / domain)})
        names = _names_in(listed) if listed else unlisted
        records: list[ImageRecord] = []
        for domain in chosen_domains(list(listed) or there, domains):
            in_folders = (
                (file, label) for label, name in enumerate(names) for file in image_files(folder, f"{domain}/{name}")
            )
            records += ((domain, *row) for row in (listed[domain] if listed else in_folders))
        if not records:
            raise ValueError(f"{folder} has no images in its domains; {REMEDY}")
        super().__init__("domain_folder", folder, records, names, **pixels)


def _lines(path: Path) -> Iterator[tuple[str, int]]:
    """Yield file and label of each line of a list."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        file, _, label = line.strip().rpartition(" ")
        if not file or not label.isdigit():
            raise ValueError(
                f"line {number} of {path} is {line!r}; it needs a path and a label, such as photo/dog/1.jpg 0"
            )
        yield file, int(label)


def _names_in(listed: dict[str, list[tuple[str, int]]]) -> list[str]:
    """Return the class names of lists: the folder of the first image of each label."""
    named: dict[int, str] = {}
    for file, label in (line for lines in listed.values() for line in lines):
        named.setdefault(label, Path(file).parent.name)
    return [named.get(label, str(label)) for label in range(max(named, default=-1) + 1)]
