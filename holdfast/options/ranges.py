"""Ranges of options, declared as the types of the arguments that take them; `problems` checks them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from annotated_types import Interval

LARGEST = 10**9  # samples, batches or slots: more than any stream or memory can have

Count: TypeAlias = Annotated[int, Interval(ge=1, le=LARGEST)]
Several: TypeAlias = Annotated[int, Interval(ge=2, le=LARGEST)]
Whole: TypeAlias = Annotated[int, Interval(ge=0, le=LARGEST)]
Positive: TypeAlias = Annotated[float, Interval(gt=0)]
NotNegative: TypeAlias = Annotated[float, Interval(ge=0)]
Share: TypeAlias = Annotated[float, Interval(ge=0, le=1)]
PositiveShare: TypeAlias = Annotated[float, Interval(gt=0, le=1)]
Momentum: TypeAlias = Annotated[float, Interval(ge=0, lt=1)]
Percent: TypeAlias = Annotated[float, Interval(ge=0, le=100)]
JpegQuality: TypeAlias = Annotated[int, Interval(ge=1, le=100)]
Severity: TypeAlias = Annotated[float, Interval(ge=0, le=5)]  # 0: unchanged; fractions are interpolated
