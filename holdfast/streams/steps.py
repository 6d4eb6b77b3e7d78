"""Streams in steps: each step mixes some domains at some severities, and one step follows the other."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.data import Dataset
from holdfast.options.ranges import Count, JpegQuality, Positive
from holdfast.records import Domain
from holdfast.streams.plans.block_plan import BlockPlan
from holdfast.streams.plans.domains import pools_of
from holdfast.streams.plans.orders import order_named
from holdfast.streams.plans.schedule import schedule_of
from holdfast.streams.rendering import Draws, Renderer, Rendering
from holdfast.streams.stream import Stream

Steps = Sequence[Sequence[tuple[Domain, float]]]


def stream_of(
    data: Dataset,
    steps: Steps,
    *,
    samples_per_domain: Count | None = None,
    cycles: Count | None = 1,
    shuffle_steps: bool = False,
    episodes: bool = False,
    order: str = "shuffled",
    concentration: Positive | None = None,
    slots: Count | None = None,
    run: Count | None = None,
    spread: Positive | None = None,
    seed: int = 0,
    family: str | None = None,
    storage_jpeg_quality: JpegQuality | None = None,
    draws: Draws = "sample",
    renderer: Renderer = "numpy",
    render_device: str = "cpu",
) -> Stream:
    """Return the stream of these steps, each a list of (domain, severity) that are mixed with one another.

    Every domain of a step gets `samples_per_domain` samples, by default all of the data, or of its natural domain;
    larger numbers go through them again in a new order. `cycles` repeats all steps, None endlessly. `shuffle_steps`
    draws the order of the steps from the seed; `episodes` starts every step from the source model. `renderer` is
    "numpy" or "torch" (see `Rendering`), and `render_device` the device of the latter.
    """
    domains = list(dict.fromkeys(domain for step in steps for domain, _ in step))
    pools = pools_of(domains, data)
    sizes = {domain: len(data.labels if pools is None else pools[index]) for index, domain in enumerate(domains)}
    schedule = schedule_of(
        steps,
        samples_per_condition=samples_per_domain,
        data_size=[[sizes[domain] for domain, _ in step] for step in steps],
        cycles=cycles,
        episodes=episodes,
    )
    arranged = order_named(order, concentration=concentration, slots=slots, run=run, spread=spread)
    plan = BlockPlan(schedule, arranged, data.labels, pools=pools, shuffle_steps=shuffle_steps, seed=seed)
    return Stream(
        plan, data, Rendering(seed, draws, family, storage_jpeg_quality, renderer=renderer, device=render_device)
    )
