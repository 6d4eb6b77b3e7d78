"""The embedded digits as tensors, read once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.data import DATASETS
from holdfast.data.tensors import as_inputs


def _whole(split: str) -> tuple[Tensor, Tensor]:
    data = DATASETS["digits"](split)
    return as_inputs(data.inputs(np.arange(len(data.labels)))), torch.from_numpy(data.labels)


@pytest.fixture(scope="session")
def digits() -> tuple[Tensor, Tensor]:
    """Return the test digits and their labels, shuffled."""
    inputs, labels = _whole("test")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return inputs[order], labels[order]


@pytest.fixture(scope="session")
def source() -> list[Tensor]:
    """Return unlabelled digits of the source, in batches."""
    return list(_whole("validation")[0].split(64))
