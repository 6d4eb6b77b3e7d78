"""How a block computes, and that nothing of it is left behind."""

from __future__ import annotations

import pytest
import torch
from threadpoolctl import threadpool_info

from holdfast.machine.devices import threads


def counted() -> tuple[int, set[int]]:
    """Return the threads of torch, and those of the BLAS of numpy and scipy."""
    return torch.get_num_threads(), {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_threads_are_those_of_before_after_the_block_however_it_ends() -> None:
    before = counted()
    with threads(2):
        assert counted() == (2, {2})
        with threads(1):
            assert counted() == (1, {1})
        assert counted() == (2, {2})
    assert counted() == before
    with pytest.raises(ValueError, match="in the middle"), threads(before[0] + 1):
        raise ValueError("in the middle")
    assert counted() == before
