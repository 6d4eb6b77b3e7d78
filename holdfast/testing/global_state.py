"""The global random generators, which no entry may use or advance."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def untouched_global_generators(name: str) -> Iterator[None]:
    """Raise an AssertionError if the code inside advances the generators of random, numpy or torch.

    >>> with untouched_global_generators("an idle entry"):
    ...     pass
    """
    before = _states()
    yield
    moved = [generator for generator, state in _states().items() if state != before[generator]]
    assert not moved, f"{name} draws from the global generator of {' and '.join(moved)}; use the one that is given"


def _states() -> dict[str, bytes]:
    states = {"random": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state().tolist()}  # noqa: NPY002
    return {generator: pickle.dumps(state) for generator, state in states.items()}
