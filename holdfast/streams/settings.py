"""The streams of the literature by name: a schedule of domains, an order of samples, and how they are rendered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from holdfast.data import Dataset
from holdfast.records import Domain
from holdfast.streams.block_plan import BlockPlan
from holdfast.streams.domains import domains_named
from holdfast.streams.orders import order_named
from holdfast.streams.schedule import schedule_of
from holdfast.streams.stream import STREAMS, Draws, Stream

__all__ = ["continual", "correlated", "gradual", "mixed_domains", "reset_each_shift", "stream_of"]

Setting = TypeVar("Setting", bound=Callable[..., Stream])
Steps = Sequence[Sequence[tuple[Domain, float]]]


def stream_of(
    data: Dataset,
    steps: Steps,
    *,
    samples_per_domain: int | None = None,
    cycles: int | None = 1,
    shuffle_steps: bool = False,
    episodes: bool = False,
    order: str = "shuffled",
    concentration: float | None = None,
    slots: int | None = None,
    seed: int = 0,
    family: str | None = None,
    storage_jpeg_quality: int | None = None,
    draws: Draws = "sample",
) -> Stream:
    """Return the stream of these steps, one after the other, the (domain, severity) cells of each mixed together.

    `samples_per_domain` is the size of a cell; more than the data has goes through it again in a new order.
    `cycles=None` never ends. With `shuffle_steps` their order is the seed's; with `episodes` each step starts from the
    source model.
    """
    schedule = schedule_of(
        steps, samples_per_cell=samples_per_domain, data_size=len(data.labels), cycles=cycles, episodes=episodes
    )
    arranged = order_named(order, concentration=concentration, slots=slots)
    plan = BlockPlan(schedule, arranged, data.labels, shuffle_steps=shuffle_steps, seed=seed)
    return Stream(plan, data, seed=seed, family=family, storage_jpeg_quality=storage_jpeg_quality, draws=draws)


def _setting(citation: str, passes_on: Callable[..., Stream] = stream_of) -> Callable[[Setting], Setting]:
    """Register a function under its own name, with whom to cite for it, and whose options it takes besides its own."""

    def add(function: Setting) -> Setting:
        vars(function).update(citation=citation, passes_on=passes_on)
        STREAMS.register(function.__name__)(function)
        return function

    return add


@_setting("Wang et al., CVPR 2022")
def continual(
    data: Dataset,
    *,
    corruptions: Sequence[str | Domain],
    severity: float = 5,
    **options: Any,
) -> Stream:
    """One domain after the other, in the order given, and nobody says when it changes.

    >>> from holdfast.data import Digits
    >>> stream = continual(Digits(), corruptions=["pixelate", "contrast", "clean"], samples_per_domain=100)
    >>> stream.length, [len(batch) for batch in stream]
    (300, [64, 36, 64, 36, 64, 36])
    """
    return stream_of(data, [[(domain, severity)] for domain in domains_named(corruptions)], **options)


@_setting("Wang et al., ICLR 2021", passes_on=continual)
def reset_each_shift(data: Dataset, *, corruptions: Sequence[str | Domain], **options: Any) -> Stream:
    """One domain after the other, each of them an episode that starts from the source model."""
    return continual(data, corruptions=corruptions, **{"episodes": True, **options})


@_setting("Marsden et al., WACV 2024")
def mixed_domains(data: Dataset, *, corruptions: Sequence[str | Domain], severity: float = 5, **options: Any) -> Stream:
    """All domains at once: every sample may come from another one, and no batch is of one kind."""
    return stream_of(data, [[(domain, severity) for domain in domains_named(corruptions)]], **options)


@_setting("Wang et al., CVPR 2022")
def gradual(
    data: Dataset,
    *,
    corruptions: Sequence[str | Domain],
    severities: Sequence[float] = (1, 2, 3, 4, 5, 4, 3, 2, 1),
    **options: Any,
) -> Stream:
    """One domain after the other, each of them rising through the severities and falling again.

    As published, the samples of a domain come at every severity: `samples_per_domain` counts those of one severity.
    """
    steps = [[(domain, severity)] for domain in domains_named(corruptions) for severity in severities]
    return stream_of(data, steps, **options)


@_setting("Boudiaf et al., CVPR 2022; Gong et al., NeurIPS 2022; Marsden et al., WACV 2024", passes_on=continual)
def correlated(data: Dataset, *, corruptions: Sequence[str | Domain], **options: Any) -> Stream:
    """One domain after the other, and inside each the classes come in bursts instead of independently."""
    return continual(data, corruptions=corruptions, **{"order": "correlated", **options})
