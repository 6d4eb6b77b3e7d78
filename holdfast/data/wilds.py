"""Two data sets of WILDS in their downloaded layout: camera traps and hospitals as natural domains."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from holdfast.data.base import DATASETS
from holdfast.data.image_folder import Pixels
from holdfast.data.natural import DomainImages, ImageRecord, chosen_domains
from holdfast.data.on_disk import folder_at
from holdfast.decode.image_files import decode_image
from holdfast.options.ranges import Count

Split = Literal["train", "val", "test", "id_val", "id_test"]
Line = Mapping[str, str]


@DATASETS.register("iwildcam")
class IWildCam(DomainImages):
    """iWildCam of WILDS: photos of camera traps with 182 kinds of animals; each location is a natural domain.

    `folder` holds `metadata.csv` and `train/<image>`, or `iwildcam_v2.0` with them. Domains are named
    `location_<number>`. `test` and `val` hold locations that `train` does not; `id_test` and `id_val` those of `train`.
    Images are resized to `side` × `side` pixels whatever their shape, as for the published networks.
    """

    citation = "Koh et al., ICML 2021 (WILDS); Beery et al., arXiv 2004.10340"

    def __init__(
        self,
        split: Split = "test",
        *,
        folder: str | Path = "data/iwildcam_v2.0",
        domains: Sequence[str] | None = None,
        side: Count = 448,
        cache_bytes: int = 2**28,
    ) -> None:
        folder = _folder(folder, "iwildcam_v2.0")
        lines = list(_lines(folder, "split", "y", "filename", "location_remapped"))
        records = _chosen(
            [line for line in lines if line["split"] == split],
            domains,
            lambda line: f"location_{line['location_remapped']}",
            lambda line: f"train/{line['filename']}",
            "y",
        )
        if not records:
            there = ", ".join(sorted({line["split"] for line in lines}))
            raise ValueError(f"iwildcam has no split {split!r}; choose one of {there}")
        names = [str(label) for label in range(max(int(line["y"]) for line in lines) + 1)]
        super().__init__(f"iwildcam/{split}", folder, records, names, resize=None, crop=side, cache_bytes=cache_bytes)

    def _open(self, path: Path) -> Image.Image:
        _, height, width = self.input_spec.shape
        return decode_image(path).resize((width, height), Image.Resampling.BILINEAR)


@DATASETS.register("camelyon17")
class Camelyon17(DomainImages):
    """Camelyon17 of WILDS: patches of lymph nodes, with a tumour or without; each hospital is a natural domain.

    `folder` holds `metadata.csv` and `patches`, or `camelyon17_v1.0` with them. Domains are named `hospital_<number>`:
    `test` is hospital 2, `val` hospital 1, `train` and `id_val` the others.
    """

    citation = "Koh et al., ICML 2021 (WILDS); Bandi et al., IEEE TMI 2018"

    def __init__(
        self,
        split: Literal["train", "val", "test", "id_val", "all"] = "test",
        *,
        folder: str | Path = "data/camelyon17_v1.0",
        domains: Sequence[str] | None = None,
        resize: Pixels = None,
        crop: Pixels = None,
        **pixels: Any,
    ) -> None:
        folder = _folder(folder, "camelyon17_v1.0")
        columns = ("patient", "node", "x_coord", "y_coord", "tumor", "center", "split")
        lines = [line for line in _lines(folder, *columns) if split in ("all", _camelyon_split(line))]
        records = _chosen(lines, domains, lambda line: f"hospital_{line['center']}", _patch, "tumor")
        if not records:
            raise ValueError(f"camelyon17 has no split {split!r}; choose train, val, test, id_val or all")
        classes = ("normal", "tumour")
        super().__init__(f"camelyon17/{split}", folder, records, classes, resize=resize, crop=crop, **pixels)


def _camelyon_split(line: Line) -> str:
    """Return the official split: hospitals 1 and 2 are held out, whatever the column says."""
    return {"1": "val", "2": "test"}.get(line["center"], "id_val" if line["split"] == "1" else "train")


def _patch(line: Line) -> str:
    slide = f"patient_{line['patient']}_node_{line['node']}"
    return f"patches/{slide}/patch_{slide}_x_{line['x_coord']}_y_{line['y_coord']}.png"


def _folder(folder: str | Path, unpacked: str) -> Path:
    return folder_at(folder, f"download and unpack {unpacked} of WILDS (https://wilds.stanford.edu)", unpacked)


def _lines(folder: Path, *columns: str) -> Iterator[Line]:
    path = folder / "metadata.csv"
    if not path.is_file():
        raise ValueError(f"{folder} has no metadata.csv; unpack the archive of WILDS again")
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = set(columns) - set(reader.fieldnames or ())
        if missing:
            raise ValueError(f"{path} has no column {' and no column '.join(sorted(missing))}; download it again")
        yield from reader


def _chosen(
    lines: Sequence[Line],
    wanted: Sequence[str] | None,
    domain: Callable[[Line], str],
    file: Callable[[Line], str],
    label: str,
) -> list[ImageRecord]:
    """Return the records of the wanted domains, in the order of the file."""
    kept = {*chosen_domains(list(dict.fromkeys(map(domain, lines))), wanted)}
    return [(domain(line), file(line), int(line[label])) for line in lines if domain(line) in kept]
