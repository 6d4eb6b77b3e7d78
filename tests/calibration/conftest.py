from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from holdfast.data import Digits, InMemoryImages


@pytest.fixture(scope="session")
def test_digits() -> Digits:
    return Digits("test")


@pytest.fixture(scope="session")
def few(test_digits: Digits) -> InMemoryImages:
    return InMemoryImages(test_digits.images[:60], test_digits.labels[:60], name="few")


@pytest.fixture(scope="session")
def means() -> NDArray[np.float64]:
    """Return the mean image of each class, one row each."""
    train = Digits("train")
    pixels = train.images.transpose(0, 3, 1, 2).reshape(len(train.labels), -1) / 255
    return np.stack([pixels[train.labels == label].mean(axis=0) for label in range(10)])


@pytest.fixture
def model(means: NDArray[np.float64]) -> nn.Module:
    """Predicts the class with the nearest mean image: fast, and about 90 % accurate."""
    head = nn.Linear(means.shape[1], 10)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(2 * means))
        head.bias.copy_(torch.from_numpy(-(means**2).sum(axis=1)))
    return nn.Sequential(nn.Flatten(), head)
