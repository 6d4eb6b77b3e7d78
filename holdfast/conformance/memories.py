"""Cases of the methods that train on a memory of past inputs."""

from __future__ import annotations

import random

import torch

from holdfast.blocks.sample_memory import Memory
from holdfast.blocks.views import VIEWS
from holdfast.conformance.case import Case, expect
from holdfast.conformance.teachers import darker_mirrored
from holdfast.methods import Method
from holdfast.methods.rotta import Rotta


def recorded_draws(method: Method) -> None:
    """Draw the memory's choices from Python's generator, seeded once before the first batch as in the official code."""
    assert isinstance(method.memory, Memory)
    method.memory.draws = random.Random(0)


def recorded_views(method: Method) -> None:
    """Draw all views from one generator, seeded once before the first batch, as the official code does."""
    generator = torch.Generator().manual_seed(0)
    expect(Rotta, method).augment = lambda inputs, _: VIEWS["tta"](inputs, generator)


ROTTA = {"view": darker_mirrored}
FIRST = {"choices": "first"}
DECAY = {"weight_decay": 5e-4}

CASES = (
    Case("rotta_det", "rotta", ROTTA, memory=True, tolerance=1e-3),
    Case("rotta_fillfirst_det", "rotta", {**ROTTA, "fill_first": True}, memory=True, tolerance=1e-3),
    Case("rotta", "rotta", arrange=recorded_views, memory=True, tolerance=1e-3, twin=True),
    Case("sotta_det", "sotta", FIRST, memory=True),
    Case("sotta_wd_det", "sotta", {**FIRST, **DECAY}, memory=True, tolerance=1e-3),
    Case("sotta", "sotta", arrange=recorded_draws, memory=True, tolerance=1e-3, twin=True),
    Case("note_det", "note", FIRST, memory=True),
    Case("note_wd_det", "note", {**FIRST, **DECAY}, memory=True, tolerance=1e-3),
    Case("note_unitta_det", "note", {"preset": "unitta", **FIRST}, memory=True),
    Case("note", "note", arrange=recorded_draws, memory=True, tolerance=1e-3, twin=True),
)
