"""Batches of a data set, in an order in which classes are mixed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from holdfast.data import Dataset
from holdfast.data.tensors import as_inputs
from holdfast.randomness import seeded_rng


def labelled_batches(data: Dataset, batch_size: int, samples: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs as the streams make them, and labels, of samples drawn without repetition."""
    order = seeded_rng(0, "doctor").permutation(len(data.labels))[:samples].astype(np.int64)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        yield as_inputs(data.inputs(chosen)), torch.from_numpy(np.asarray(data.labels)[chosen])
