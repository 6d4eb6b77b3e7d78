"""The difficulties of CCC: target accuracy, pool of corruptions, and their order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

from holdfast.registry import UnknownNameError, nearest

Difficulty: TypeAlias = Literal["easy", "medium", "hard"]

OFFICIAL_TARGETS_PERCENT: dict[str, float] = {"easy": 40.0, "medium": 20.0, "hard": 0.0}
RESNET50_CLEAN_PERCENT, IMAGENET_CHANCE_PERCENT = 76.1, 0.1  # of the network behind the official targets
REACH_SHARE = 0.1  # of the accuracy above chance: how close to the target a corruption must get

_EASY = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
# The official pools, without the corruptions that cannot lower a ResNet-50 to the target.
POOLS: dict[str, tuple[str, ...]] = {
    "easy": _EASY,
    "medium": _EASY[:-1],
    "hard": ("gaussian_noise", "shot_noise", "impulse_noise", "contrast"),
}


def check_difficulty(difficulty: str) -> None:
    """Raise for an unknown difficulty."""
    if difficulty not in get_args(Difficulty):
        raise UnknownNameError(f"unknown difficulty {difficulty!r}; {nearest(difficulty, get_args(Difficulty))}")


def target_percent_of(difficulty: str, clean_percent: float, chance_percent: float) -> float:
    """Return the target accuracy of a model: the share of its accuracy above chance that CCC leaves a ResNet-50.

    Easy and medium leave 52.5 % and 26.2 % of it: 40 % and 20 % for a ResNet-50 (76.1 % clean). The target of hard is
    0 %, which is below chance and means as low as possible.

    >>> [target_percent_of(difficulty, 76.1, 0.1) for difficulty in POOLS]
    [40.0, 20.0, 0.0]
    >>> target_percent_of("medium", 98.0, 10.0)
    33.042105
    """
    check_difficulty(difficulty)
    if difficulty == "hard":
        return 0.0
    above = OFFICIAL_TARGETS_PERCENT[difficulty] - IMAGENET_CHANCE_PERCENT
    share = above / (RESNET50_CLEAN_PERCENT - IMAGENET_CHANCE_PERCENT)
    return round(chance_percent + share * (clean_percent - chance_percent), 6)


def reach_percent(target_percent: float, clean_percent: float, chance_percent: float) -> float:
    """Return the accuracy that a corruption must reach to be in the pool.

    It is the target, or chance if that is higher, plus a tenth of the model's accuracy above chance. For a ResNet-50 on
    ImageNet-C this rule yields the three official pools.

    >>> round(reach_percent(20, 76.1, 0.1), 3), round(reach_percent(0, 76.1, 0.1), 3)
    (27.6, 7.7)
    """
    return max(target_percent, chance_percent) + REACH_SHARE * (clean_percent - chance_percent)


def corruption_order(pool: Sequence[str], seed: int) -> Iterator[str]:
    """Yield the corruptions of an endless walk, drawn from the pool, never the same twice in a row.

    Python's `random` is seeded and used as in the official code, so that the orders are the official ones.

    >>> from itertools import islice
    >>> list(islice(corruption_order(POOLS["hard"], 43), 4))
    ['gaussian_noise', 'impulse_noise', 'shot_noise', 'contrast']
    """
    if len(set(pool)) < 2:
        raise ValueError(f"the pool of a walk needs at least 2 corruptions, got {list(pool)}")
    draw = random.Random(seed)
    latest = None
    while True:
        drawn = draw.choice(pool)
        if drawn != latest:
            yield drawn
            latest = drawn


def walk_pairs(pool: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    """Yield the pairs of an endless walk; each begins with the second corruption of the previous one.

    >>> next(walk_pairs(POOLS["hard"], 43))
    ('gaussian_noise', 'impulse_noise')
    """
    return pairwise(corruption_order(pool, seed))
