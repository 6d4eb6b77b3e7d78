"""What to calibrate, and how precisely to measure it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.corruptions import FAMILIES
from holdfast.data import Dataset
from holdfast.data.crops import CropName
from holdfast.streams.walks.difficulty import POOLS, check_difficulty, target_percent_of
from holdfast.streams.walks.path import PathRule, check_rule

AUDIO_POOL = ("white_noise", "enq", "end1", "end2", "ensc", "time_stretch", "pitch_shift")


@dataclass(frozen=True)
class CalibrationSettings:
    """The target, the pairs and the precision of a calibration; the defaults are three pairs of CCC-Medium.

    >>> CalibrationSettings(pictures=1)
    Traceback (most recent call last):
    ValueError: calibration needs pictures=2 or more and at least 1 pair and step, got 1, None and None
    """

    difficulty: str = "medium"  # the target accuracy is that of this difficulty for the model (`target_percent_of`)
    target_percent: float | None = None  # the target accuracy itself
    pairs: int | Sequence[Sequence[str]] | None = None  # how many (None: three, or enough for `steps`), or their names
    steps: int | None = None
    pool: Sequence[str] | None = None  # corruptions to draw pairs from; None: the official ones, or ours for audio
    path_rule: PathRule = "official"
    seed: int = 43  # draws the pairs
    family: str | None = "224"  # of severity tables; CCC defines 224 px only, whatever the image size
    storage_jpeg_quality: int | None = None
    crop: CropName = "auto"
    pictures: int = 500  # at most, to measure on
    picture_seed: int = 0
    margin_percent: float = 1.0  # of the mean along a path (95 %, over images): images are added until it is reached
    refinements: int = 2  # how often a path is measured and computed again
    coarse: bool = True  # measure whole severities and interpolate; False: measure all 21 × 21 points

    def __post_init__(self) -> None:
        check_rule(self.path_rule)
        check_difficulty(self.difficulty)
        if self.family not in (None, *FAMILIES):
            raise ValueError(f"unknown family {self.family!r} of severity tables; choose one of {', '.join(FAMILIES)}")
        if self.target_percent is not None and not 0 <= self.target_percent <= 100:  # nan is not either
            raise ValueError(f"target_percent must be between 0 and 100, got {self.target_percent}")
        if self.pictures < 2 or self.pairs in (0, []) or (self.steps is not None and self.steps < 1):
            raise ValueError(
                "calibration needs pictures=2 or more and at least 1 pair and step, "
                f"got {self.pictures}, {self.pairs} and {self.steps}"
            )

    def suited_to(self, data: Dataset) -> CalibrationSettings:
        """Return the settings with the pool for the kind of the data; audio has a single table of severities."""
        if data.input_spec.kind == "audio":
            return replace(self, family=None, pool=self.pool or AUDIO_POOL)
        return replace(self, pool=self.pool or POOLS["easy" if self.target_percent is not None else self.difficulty])

    def target_for(self, clean_percent: float, chance_percent: float) -> float:
        """Return the target accuracy in percent for a model with this accuracy on clean samples."""
        if self.target_percent is not None:
            return float(self.target_percent)
        return target_percent_of(self.difficulty, clean_percent, chance_percent)
