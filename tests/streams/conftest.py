from __future__ import annotations

import pytest

from holdfast.data import Digits, InMemoryImages


@pytest.fixture(scope="session")
def digits() -> Digits:
    return Digits("test")


@pytest.fixture(scope="session")
def few(digits: Digits) -> InMemoryImages:
    """Fifty digits: quick to render."""
    return InMemoryImages(digits.images[:50], digits.labels[:50], name="few")
