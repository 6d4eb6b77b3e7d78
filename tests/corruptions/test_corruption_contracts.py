"""The public contracts of corruptions: every registered one keeps them, and each broken example is caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.corruptions import CORRUPTIONS, Corruption
from holdfast.corruptions.audio.base import AudioCorruption
from holdfast.testing import check_corruption

# Stronger severities of these do not differ more from the clean sample, value by value.
UNORDERED = {
    "elastic_transform",  # published tables: wider but smoother displacements
    "time_stretch",  # shifts the waveform in time
    "time_stretch_compat",
}
TABLES = {family: range(6) for family in ("32", "64", "224")}


@pytest.mark.parametrize("name", CORRUPTIONS.names())
def test_every_corruption_keeps_the_contracts(name: str) -> None:
    check_corruption(name, ordered=name not in UNORDERED)


def darken(images: np.ndarray, level: float) -> np.ndarray:
    """Darken the image."""
    return (images * (1 - level / 10)).astype(np.uint8)


def in_place(images: np.ndarray, _level: float) -> np.ndarray:
    """Darken the image that was given."""
    images //= 2
    return images


def by_global_noise(images: np.ndarray, level: float) -> np.ndarray:
    """Add noise from the global generator."""
    return darken(images, level) + np.random.randint(0, 2, images.shape, np.uint8)  # noqa: NPY002


def by_batch(images: np.ndarray, level: float) -> np.ndarray:
    """Darken by the mean of the batch."""
    return (images * (1 - level * images.mean() / 2550)).astype(np.uint8)


def undocumented(images: np.ndarray, level: float) -> np.ndarray:
    return darken(images, level)


calls = 0


def by_call(images: np.ndarray, level: float) -> np.ndarray:
    """Change with every call."""
    global calls
    calls += 1
    return darken(images, level) + np.uint8(calls % 7)


def weaker(images: np.ndarray, level: float) -> np.ndarray:
    """Darken less at higher severities."""
    return darken(images, 6 - level)


def idle(images: np.ndarray, _level: float) -> np.ndarray:
    """Change nothing."""
    return images


BROKEN: list[tuple[Callable[..., Any], str]] = [
    (in_place, "changes the samples that it is given"),
    (by_global_noise, "draws from the global generator of numpy"),
    (by_batch, "differs for one sample and for a batch"),
    (by_call, "differs for the same samples"),
    (undocumented, "needs a one-line docstring"),
    (weaker, "changes samples less at severity 5"),
    (idle, "changes nothing at severity 1"),
]


@pytest.mark.parametrize(("apply", "words"), BROKEN)
def test_a_corruption_that_breaks_a_contract_is_caught(apply: Callable[..., Any], words: str) -> None:
    check_corruption(Corruption("darken", TABLES, darken))
    with pytest.raises(AssertionError, match=words):
        check_corruption(Corruption(apply.__name__, TABLES, apply))


def test_drawing_globally_is_caught_where_the_result_is_the_same() -> None:
    def drawing(images: np.ndarray, level: float) -> np.ndarray:
        """Draw, and do not use it."""
        np.random.random()  # noqa: NPY002
        return darken(images, level)

    with pytest.raises(AssertionError, match="global generator of numpy"):
        check_corruption(Corruption("drawing", TABLES, drawing))


def test_a_missing_citation_is_caught() -> None:
    with pytest.raises(AssertionError, match="has no citation"):
        check_corruption(replace(CORRUPTIONS["contrast"], name="uncited", citation=""))


class Rounding(Corruption):
    """Returns another type than it was given."""

    def batch(self, samples: Any, *args: Any, **options: Any) -> Any:
        return super().batch(samples, *args, **options).astype(np.float32)


class Eager(Corruption):
    """Corrupts at severity 0 and accepts any severity."""

    fault = ""

    def batch(self, samples: Any, severity: float, rngs: Any, **options: Any) -> Any:
        if self.fault == "zero" and severity == 0:
            return samples + np.uint8(1)
        return super().batch(samples, min(max(severity, 0), 5), rngs, **options)


def test_another_type_severity_zero_and_unknown_severities_are_caught() -> None:
    with pytest.raises(AssertionError, match="returned float32"):
        check_corruption(Rounding("rounding", TABLES, darken))
    with pytest.raises(AssertionError, match="accepts severity -1"):
        check_corruption(Eager("eager", TABLES, darken))
    eager = Eager("eager", TABLES, darken)
    object.__setattr__(eager, "fault", "zero")
    with pytest.raises(AssertionError, match="changes samples at severity 0"):
        check_corruption(eager)


def test_values_that_are_not_finite_are_caught() -> None:
    def divide(waveforms: np.ndarray, _level: float) -> np.ndarray:
        """Divide by nothing."""
        return waveforms * np.float32("inf")

    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="NaN or infinite"):
        check_corruption(AudioCorruption("divide", {"audio": range(6)}, divide))
