"""Cases of the methods that learn from a memory of inputs."""

from __future__ import annotations

from torch import Generator, Tensor

from holdfast.conformance.case import Case

__all__ = ["CASES"]


def mirrored(inputs: Tensor, generator: Generator) -> Tensor:
    """The view of RoTTA's deterministic traces: left for right, and a little darker."""
    return 0.8 * inputs.flip(-1)


ROTTA = {"view": mirrored}
FIRST = {"choices": "first"}
DECAY = {"weight_decay": 5e-4}

CASES = (
    Case("rotta_det", "rotta", ROTTA, memory=True, tolerance=1e-3),
    Case("rotta_fillfirst_det", "rotta", {**ROTTA, "fill_first": True}, memory=True, tolerance=1e-3),
    Case("rotta", "rotta", random=True, twin=True),
    Case("sotta_det", "sotta", FIRST, memory=True),
    Case("sotta_wd_det", "sotta", {**FIRST, **DECAY}, memory=True, tolerance=1e-3),
    Case("sotta", "sotta", random=True, twin=True),
    Case("note_det", "note", FIRST, memory=True),
    Case("note_wd_det", "note", {**FIRST, **DECAY}, memory=True, tolerance=1e-3),
    Case("note_unitta_det", "note", {"preset": "unitta", **FIRST}, memory=True),
    Case("note", "note", random=True, twin=True),
)
