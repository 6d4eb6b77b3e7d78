"""Import accuracy matrices measured elsewhere, such as the official ones of CCC, without unpickling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.calibration.pairs import Pair, check_pairs, in_order, names_of, transition_of
from holdfast.data import Crop
from holdfast.streams.walks.difficulty import OFFICIAL_TARGETS_PERCENT, POOLS, check_difficulty, walk_pairs
from holdfast.streams.walks.path import LEVELS, GridPoint, PathRule, find_path
from holdfast.streams.walks.transitions import Calibration, Transition

OFFICIAL_CROP = Crop("resized")
OFFICIAL_KEY = re.compile(r"n1_(\w+)_n2_(\w+)")


def import_matrices(path: str | Path) -> dict[Pair, NDArray[np.float64]]:
    """Read 21 × 21 accuracies in percent by pair, from .npz or .json, keys as published (`n1_<c1>_n2_<c2>`) or `c1+c2`.

    The official file is a pickle, which can execute code and is not read; if you trust it, convert it with
    `numpy.savez("matrices.npz", **content)` first.
    """
    path = Path(path)
    if path.suffix == ".npz":
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            content: dict[str, Any] = {key: arrays[key] for key in arrays.files}
    elif path.suffix == ".json":
        content = json.loads(path.read_text())
    else:
        raise ValueError(f"{path} must be .npz or .json; pickles are never read, convert it first")
    if not isinstance(content, dict) or not content:
        raise ValueError(
            f"{path} holds no matrices by pair; it must contain {{'n1_<c1>_n2_<c2>': 21 × 21 percentages, …}}"
        )
    return {_pair_of(key, path): _matrix_of(key, values, path) for key, values in content.items()}


def calibration_of(
    matrices: Mapping[Pair, NDArray[np.float64]],
    *,
    difficulty: str = "medium",
    target_percent: float | None = None,
    pairs: int | Sequence[Sequence[str]] | None = None,
    steps: int | None = None,
    pool: Sequence[str] | None = None,
    path_rule: PathRule = "official",
    seed: int = 43,
    family: str | None = "224",
    storage_jpeg_quality: int | None = 85,
    crop: Crop | None = OFFICIAL_CROP,
) -> Calibration:
    """Return the calibration of imported matrices, with the official pool, order and target of a difficulty.

    The official targets are for the ResNet-50 whose matrices were published; for others pass `target_percent`. The
    stream crops every image although the official matrices were measured without crops, so that as published the source
    is less accurate than expected: 34 % instead of 40 % on CCC-Easy.
    """
    check_difficulty(difficulty)
    target = OFFICIAL_TARGETS_PERCENT[difficulty] if target_percent is None else float(target_percent)
    if pairs is None or isinstance(pairs, int):
        number = 3 if pairs is None and steps is None else pairs
        walk: Iterable[Pair] = islice(walk_pairs(names_of(pool or POOLS[difficulty]), seed), number)
    else:
        walk = check_pairs(pairs)

    def solve(pair: Pair, before: Sequence[GridPoint]) -> Transition:
        if pair not in matrices:
            raise ValueError(f"there is no matrix for {pair[0]}+{pair[1]}; import one, or pass another pool")
        path = find_path(path_rule, matrices[pair], target, before)
        return transition_of(pair, path, matrices[pair], np.ndindex(LEVELS, LEVELS))

    return Calibration(
        in_order(walk, solve, steps),
        target_percent=target,
        difficulty=difficulty if target_percent is None else None,
        clean_percent=float(next(iter(matrices.values()))[0, 0]),
        path_rule=path_rule,
        family=family,
        storage_jpeg_quality=storage_jpeg_quality,
        crop=crop,
        seed=seed if pairs is None or isinstance(pairs, int) else None,
    )


def own_settings(calibration: Calibration, seed: int) -> list[str]:
    """Return the names of the settings in which a calibration is not the official walk of a seed.

    >>> from holdfast.streams import Transition
    >>> fade = Transition("fog", "snow", ((1, 0), (0, 0), (0, 1)), (40.0, 40.0, 40.0))
    >>> own_settings(Calibration((fade,), 40.0, "easy", family="224", crop=OFFICIAL_CROP), 43)
    ['storage_jpeg_quality', 'pairs']
    """
    official = {"path_rule": "official", "family": "224", "storage_jpeg_quality": 85, "crop": OFFICIAL_CROP}
    other = [name for name, value in official.items() if getattr(calibration, name) != value]
    pairs = [(entry.first, entry.second) for entry in calibration.transitions]
    pool = POOLS.get(calibration.difficulty or "")
    return other if pool and pairs == list(islice(walk_pairs(pool, seed), len(pairs))) else [*other, "pairs"]


def _pair_of(key: str, path: Path) -> Pair:
    official = OFFICIAL_KEY.fullmatch(key)
    names = official.groups() if official else key.split("+")
    try:
        return check_pairs([names])[0]
    except ValueError as error:
        raise ValueError(f"{path}, {key!r}: {error}") from error


def _matrix_of(key: str, values: Any, path: Path) -> NDArray[np.float64]:
    matrix = np.asarray(values, np.float64)
    if matrix.shape != (LEVELS, LEVELS) or not np.isfinite(matrix).all():
        raise ValueError(
            f"{path}, {key!r}: a matrix must be {LEVELS} × {LEVELS} finite numbers, got shape {matrix.shape}"
        )
    if matrix.min() < 0 or not 1 < matrix.max() <= 100:
        raise ValueError(
            f"{path}, {key!r}: accuracies must be in percent (0 to 100), got {matrix.min():g} to {matrix.max():g}"
        )
    return matrix
