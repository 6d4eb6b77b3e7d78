"""The result of a calibration: transitions between two corruptions, with the expected accuracy of each step."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from holdfast.data.crops import Crop, crop_from
from holdfast.machine.folders import write_whole
from holdfast.streams.walks.path import LEVELS, GridPoint, check_path

SCHEMA = 1
STORED_POINTS = "cells"  # the key of `points` in files, which schema 1 has from the beginning


@dataclass(frozen=True)
class Transition:
    """A path from one corruption to another; accuracies are in percent, levels in quarters of a severity."""

    first: str  # corruption that fades out
    second: str  # corruption that fades in
    points: tuple[GridPoint, ...]  # one for each step; stored as "cells"
    expected_percent: tuple[float, ...]  # accuracy of the calibrated model, one for each step
    margin_percent: float | None = None  # of the mean along the path, at 95 %; None: unknown
    pictures: int | None = None  # number of images behind each measured point
    matrix_percent: tuple[tuple[float, ...], ...] = ()  # (21, 21) estimates
    measured: tuple[GridPoint, ...] = ()  # the points of the matrix that were not interpolated

    def __post_init__(self) -> None:
        check_path(self.points)
        if len(self.expected_percent) != len(self.points):
            raise ValueError(
                f"{self.first}+{self.second} has {len(self.points)} steps but {len(self.expected_percent)} expected "
                "accuracies; pass one for each step"
            )
        if not all(map(math.isfinite, self.expected_percent)):
            raise ValueError(f"the expected accuracies of {self.first}+{self.second} are not all finite")
        if self.matrix_percent and {len(self.matrix_percent), *map(len, self.matrix_percent)} != {LEVELS}:
            raise ValueError(f"the matrix of {self.first}+{self.second} must be {LEVELS} × {LEVELS}")

    @property
    def mean_percent(self) -> float:
        """The mean expected accuracy of all steps."""
        return sum(self.expected_percent) / len(self.expected_percent)


@dataclass(frozen=True)
class Calibration:
    """Transitions in the order of a walk, and the settings for which their accuracies hold; saved as plain JSON."""

    transitions: tuple[Transition, ...]  # in the order of the walk
    target_percent: float  # accuracy that every step is to have
    difficulty: str | None = None  # that set the target; None: the target was given in percent
    clean_percent: float | None = None  # accuracy without corruptions
    chance_percent: float | None = None  # accuracy of guessing
    path_rule: str = "official"  # how a path through the matrix is chosen
    family: str | None = None  # of the severity tables; None: the one that fits the size of the images
    storage_jpeg_quality: int | None = None  # images are stored as JPEG after their corruptions; None: they are not
    crop: Crop | None = None  # of every image before its corruptions
    model: str = ""  # digest of the weights
    data: str = ""  # digest of the data
    seed: int | None = None  # that drew the pairs; None: the pairs were named
    left_out: Mapping[str, str] = field(default_factory=dict)  # corruption -> reason

    def __post_init__(self) -> None:
        if not self.transitions:
            raise ValueError("a calibration needs at least one transition; calibrate at least one pair")
        if not math.isfinite(self.target_percent):
            raise ValueError(f"the target accuracy must be finite, got {self.target_percent}")

    @property
    def steps(self) -> int:
        """The number of steps of all transitions."""
        return sum(len(transition.points) for transition in self.transitions)

    def to_json(self) -> str:
        """Return the calibration as JSON text."""
        content = asdict(self)
        if self.crop is None:
            del content["crop"]  # as calibrations from before there were crops
        for entry in content["transitions"]:
            entry[STORED_POINTS] = entry.pop("points")
        return json.dumps({"schema": SCHEMA, **content}, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Calibration:
        """Return the calibration that `to_json` has written; refuse anything else.

        >>> step = Transition("fog", "snow", ((1, 0), (0, 0)), (40.0, 76.1))
        >>> Calibration.from_json(Calibration((step,), 40.0).to_json()).transitions[0].mean_percent
        58.05
        """
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
            raise ValueError(f"not a calibration of schema {SCHEMA}")
        _check_keys(Calibration, content)
        for entry in content["transitions"]:
            if STORED_POINTS in entry:
                entry["points"] = entry.pop(STORED_POINTS)
            _check_keys(Transition, entry)
        return Calibration(
            **{
                **_tuples(content),
                "left_out": content.get("left_out", {}),
                "crop": crop_from(content.get("crop")),
            }
        )

    def save(self, path: str | Path) -> Path:
        """Write the JSON file, completely or not at all."""
        path = Path(path)
        write_whole(path, self.to_json().encode())
        return path

    @staticmethod
    def load(path: str | Path) -> Calibration:
        """Read a file that `save` has written."""
        try:
            return Calibration.from_json(Path(path).read_text())
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is not a calibration: {error}; make one with `holdfast calibrate`") from error


def _check_keys(kind: type, content: Mapping[str, Any]) -> None:
    unknown = set(content) - {entry.name for entry in fields(kind)}
    if unknown:
        raise ValueError(f"a {kind.__name__.lower()} has no {', '.join(sorted(unknown))}")


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with entries as transitions and lists as tuples."""
    transitions = [{key: _tuple(value) for key, value in entry.items()} for entry in content["transitions"]]
    return {**content, "transitions": tuple(Transition(**entry) for entry in transitions)}


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
