"""Cases of CoTTA and ROID, which learn from views of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from torch import Generator, Tensor

from holdfast.conformance.case import Case
from holdfast.methods import Method

__all__ = ["CASES"]

FOUR: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda inputs: inputs,
    lambda inputs: inputs.flip(-1),
    lambda inputs: inputs.roll(3, -1),
    lambda inputs: 0.8 * inputs,
)
in_turn = cycle(FOUR)


def fixed_views(inputs: Tensor, generator: Generator) -> Tensor:
    """Return the next of the four views that CoTTA's traces were recorded with."""
    return next(in_turn)(inputs)


def darker_mirrored(inputs: Tensor, generator: Generator) -> Tensor:
    """Return the view that ROID's trace was recorded with."""
    return 0.8 * inputs.flip(-1)


def mean_probs(method: Method) -> Tensor:
    """Return ROID's average prediction."""
    found = method.mean_probs
    assert isinstance(found, Tensor)
    return found


# No confidence reaches a threshold of 2, and every one that of 0.
COTTA_VIEWS = {"preset": "cifar10-c", "confidence_threshold": 2.0, "views": 4, "view": fixed_views}
STATES = {"class_probs_ema": mean_probs}

# Twins: in double precision a network takes ten times as long, and CoTTA looks at 32 views of each batch.
CASES = (
    Case("cotta_det", "cotta", {**COTTA_VIEWS, "restore_share": 0.0}, tolerance=1e-3),
    Case("cotta_restore1_det", "cotta", {**COTTA_VIEWS, "restore_share": 1.0}, tolerance=1e-3),
    Case("cotta_noaug_det", "cotta", {"confidence_threshold": 0.0, "restore_share": 0.0}, tolerance=1e-3, twin=True),
    Case("cotta_imagenet_det", "cotta", {"preset": "imagenet-c", "restore_share": 0.0}, tolerance=1e-3, twin=True),
    Case("cotta_ccc_det", "cotta", {"preset": "ccc", "restore_share": 0.0}, tolerance=1e-3),
    Case("cotta", "cotta", random=True, twin=True),
    Case("roid_det", "roid", {"view": darker_mirrored}, states=STATES),
    Case("roid_identity_det", "roid", {"view": "identity"}, states=STATES, twin=True),
    Case("roid_sgd_det", "roid", {"preset": "imagenet-c", "view": "identity"}, states=STATES),
    Case("roid", "roid", random=True),
)
