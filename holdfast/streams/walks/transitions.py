"""What calibrating has found: transitions between two corruptions and the accuracy to expect on each of their steps."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from holdfast.streams.walks.path import LEVELS, GridCell, check_path

__all__ = ["Calibration", "Transition"]

SCHEMA = 1


@dataclass(frozen=True)
class Transition:
    """A path from one corruption alone to another alone; accuracies in percent, levels in quarters of a severity."""

    first: str
    second: str
    cells: tuple[GridCell, ...]  # one for each step
    expected_percent: tuple[float, ...]  # of the model that it was calibrated for, one for each step
    margin_percent: float | None = None  # the mean along the path lies within ± this, 95 %; None: not known
    pictures: int | None = None  # that each measured cell was measured on
    matrix_percent: tuple[tuple[float, ...], ...] = ()  # (21, 21) estimates
    measured: tuple[GridCell, ...] = ()  # the cells of the matrix that are no interpolation

    def __post_init__(self) -> None:
        check_path(self.cells)
        if len(self.expected_percent) != len(self.cells):
            raise ValueError(
                f"{self.first}+{self.second} has {len(self.cells)} steps but {len(self.expected_percent)} expected "
                "accuracies; give one for each step"
            )
        if self.matrix_percent and {len(self.matrix_percent), *map(len, self.matrix_percent)} != {LEVELS}:
            raise ValueError(f"the matrix of {self.first}+{self.second} is not {LEVELS} × {LEVELS}")

    @property
    def mean_percent(self) -> float:
        """The expected accuracy over all steps."""
        return sum(self.expected_percent) / len(self.expected_percent)


@dataclass(frozen=True)
class Calibration:
    """Transitions in the order of a walk, and under which conditions their accuracies hold; saved as plain JSON."""

    transitions: tuple[Transition, ...]
    target_percent: float
    difficulty: str | None = None  # by which the target was chosen; None: it was given in percent
    clean_percent: float | None = None
    chance_percent: float | None = None
    path_rule: str = "official"
    family: str | None = None
    storage_jpeg_quality: int | None = None
    model: str = ""  # digest of the weights
    data: str = ""  # digest of the pictures
    seed: int | None = None  # that drew the pairs; None: they were named
    left_out: Mapping[str, str] = field(default_factory=dict)  # corruption -> why it is not in the pool

    def __post_init__(self) -> None:
        if not self.transitions:
            raise ValueError("a calibration without transitions makes no walk; calibrate at least one pair")

    @property
    def steps(self) -> int:
        """The number of steps of all transitions."""
        return sum(len(transition.cells) for transition in self.transitions)

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Calibration:
        """Return what `to_json` has written, refusing anything else.

        >>> step = Transition("fog", "snow", ((1, 0), (0, 0)), (40.0, 76.1))
        >>> Calibration.from_json(Calibration((step,), 40.0).to_json()).transitions[0].mean_percent
        58.05
        """
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
            raise ValueError(f"this is no calibration of schema {SCHEMA}")
        _check_keys(Calibration, content)
        for entry in content["transitions"]:
            _check_keys(Transition, entry)
        return Calibration(**{**_tuples(content), "left_out": content.get("left_out", {})})

    def save(self, path: str | Path) -> Path:
        """Write the JSON file, whole or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            file.write(self.to_json())
        os.replace(file.name, path)
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
    """Return the content with transitions for their entries, and tuples for lists."""
    transitions = [{key: _tuple(value) for key, value in entry.items()} for entry in content["transitions"]]
    return {**content, "transitions": tuple(Transition(**entry) for entry in transitions)}


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
