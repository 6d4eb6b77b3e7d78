"""Keep measured outcomes on disk: a folder for each model and set of samples, a file for each pair."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.machine.folders import cache_folder, held, made, write_whole


def default_cache() -> Path:
    """Return the default cache folder: `calibration` in HOLDFAST_CACHE, or in the user's cache folder."""
    return cache_folder("calibration")


class Store:
    """Arrays by group and name; files are written completely or not at all, and damaged ones count as absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = made(folder)

    def read(self, group: str) -> dict[str, NDArray[np.bool_]]:
        """Return the arrays of a group; none if nothing was stored."""
        path = self._path(group)
        if not path.exists():
            return {}
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                arrays = {name: content[name] for name in content.files}
            if any(array.dtype != np.bool_ or array.ndim != 1 for array in arrays.values()):
                raise ValueError("not an array of outcomes")
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            warnings.warn(f"{path} is damaged ({error}); its content will be measured again", stacklevel=2)
            return {}
        return arrays

    def write(self, group: str, arrays: Mapping[str, NDArray[np.bool_]]) -> None:
        """Store the arrays of a group; of arrays that another process has stored meanwhile, keep the longer."""
        with held(self.folder, wait=True):  # for a moment
            kept = self.read(group)
            for name, array in arrays.items():
                if len(kept.get(name, ())) < len(array):
                    kept[name] = array
            content = BytesIO()
            np.savez(content, **kept)  # type: ignore[arg-type]
            write_whole(self._path(group), content.getvalue())

    def _path(self, group: str) -> Path:
        return self.folder / f"{group}.npz"
