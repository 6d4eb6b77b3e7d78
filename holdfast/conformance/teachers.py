"""Cases of CoTTA and ROID, which train on augmented views of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch import Generator, Tensor

from holdfast.blocks.views import VIEWS
from holdfast.conformance.case import Case, expect
from holdfast.methods import Method
from holdfast.records import Step
from holdfast.recovery import Recovery
from holdfast.restorable import Restorable

FOUR: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda inputs: inputs,
    lambda inputs: inputs.flip(-1),
    lambda inputs: inputs.roll(3, -1),
    lambda inputs: 0.8 * inputs,
)


def four_views() -> dict[str, Any]:
    """Return the four fixed views, in turn, that CoTTA's deterministic traces were recorded with."""
    in_turn = cycle(FOUR)
    return {"view": lambda inputs, _: next(in_turn)(inputs)}


def darker_mirrored(inputs: Tensor, _generator: Generator) -> Tensor:
    """Return the fixed view that deterministic traces of ROID and RoTTA were recorded with: mirrored and darker."""
    return 0.8 * inputs.flip(-1)


class Restoration(Recovery):
    """Restore each weight with probability 0.01, drawn from a generator shared with the views."""

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        self.generator = generator

    def recover(self, method: Restorable, step: Step) -> str | None:
        """Restore after each batch."""
        method.restore(lambda weight, _: torch.rand(weight.shape, generator=self.generator) < 0.01)
        return None


def recorded_draws(view: str, *, restoring: bool = False) -> dict[str, Any]:
    """Return options that draw from one generator, seeded once before the first batch, as the official code does."""
    generator = torch.Generator().manual_seed(0)
    options: dict[str, Any] = {"view": lambda inputs, _: VIEWS[view](inputs, generator)}
    return {**options, "recovery": Restoration(generator)} if restoring else options


def mean_probs(method: Method) -> Tensor:
    """Return ROID's moving average of the mean prediction."""
    return expect(Tensor, method.mean_probs)


ALWAYS = {"confidence_threshold": 2.0, "views": 4}  # above any confidence: every batch is averaged over views
NEVER = {"confidence_threshold": 0.0, "restore_share": 0.0}
IMAGENET, CCC = ({"preset": preset, "restore_share": 0.0} for preset in ("imagenet-c", "ccc"))
STATES = {"class_probs_ema": mean_probs}

# Some cases are twins for their cost: double precision takes ten times as long, and CoTTA averages 32 views.
CASES = (
    Case("cotta_det", "cotta", {**ALWAYS, "restore_share": 0.0}, fresh_options=four_views, tolerance=1e-3),
    Case("cotta_restore1_det", "cotta", {**ALWAYS, "restore_share": 1.0}, fresh_options=four_views, tolerance=1e-3),
    Case("cotta_noaug_det", "cotta", NEVER, tolerance=1e-3, twin=True),
    Case("cotta_imagenet_det", "cotta", IMAGENET, tolerance=1e-3, twin=True),
    Case("cotta_ccc_det", "cotta", CCC, tolerance=1e-3),
    Case("cotta", "cotta", fresh_options=partial(recorded_draws, "tta", restoring=True), tolerance=1e-3, twin=True),
    Case("roid_det", "roid", {"view": darker_mirrored}, states=STATES),
    Case("roid_identity_det", "roid", {"view": "identity"}, states=STATES, twin=True),
    Case("roid_sgd_det", "roid", {"preset": "imagenet-c", "view": "identity"}, states=STATES),
    Case("roid", "roid", fresh_options=partial(recorded_draws, "roid"), states=STATES, twin=True),
)
