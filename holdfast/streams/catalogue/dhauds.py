"""DHAuDS: the criteria one after the other on any set of sounds, each from the source model, under published seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from holdfast.audio import short_name
from holdfast.corruptions.audio.criteria import BOTH_WAYS, Noise, criterion_corruption
from holdfast.corruptions.audio.dhauds import CLIPS, SEEDS, Copy, criteria
from holdfast.data import Dataset
from holdfast.records import Domain
from holdfast.registry import UnknownNameError, nearest
from holdfast.streams.builder import STREAMS
from holdfast.streams.plans.block_plan import BlockPlan
from holdfast.streams.plans.orders import order_named
from holdfast.streams.plans.schedule import schedule_of
from holdfast.streams.rendering import Rendering
from holdfast.streams.stream import Stream

__all__ = ["dhauds"]


@STREAMS.register("dhauds", citation="Shao et al., arXiv 2511.18421")
def dhauds(
    data: Dataset,
    *,
    criteria: Sequence[str] | None = None,
    dataset: str | None = None,
    noise: Noise = None,
    compat: bool = False,
    episodes: bool = True,
    samples_per_domain: int | None = None,
    order: str = "shuffled",
    seed: int = 0,
) -> Stream:
    """Criteria of DHAuDS such as "ENQ-L1", by default all of them, each a domain and an episode of its own.

    `dataset` names whose criteria they are: "urbansound8k", "speech_commands", "vocalsound" or "reefset" (or "us8",
    "sc2", "vs", "rs"); by default the data's own, or those of "vocalsound" for other data. `noise` is the folder of the
    corpora, or `{ENQ: folder, …}` with embedded noise for the rest, or your own recordings, `{recordings: folder or
    Parquet file, ENQ: {L1: [label, …], L2: …}, …}`; `compat` brings the
    slips of the official code. Draws have the published seeds plus that of the run: 123456 for what is answered, 2025
    for the twin that offline protocols adapt to. Each clip draws from its own generator, which is ours.

    >>> import numpy as np
    >>> from holdfast.data import InMemoryAudio
    >>> words = InMemoryAudio(np.ones((6, 4_000), np.float32), np.arange(6) % 2, sample_rate=16_000)
    >>> stream = dhauds(words, criteria=["WHN-L1", "PSH-L2"])
    >>> stream.domains, stream.episodes(12)
    (('WHN-L1', 'PSH-L2'), [(0, 6), (6, 12)])
    """
    if data.input_spec.kind != "audio":
        raise ValueError(
            f"{data.name} holds no sounds, and DHAuDS has criteria for nothing else; choose another stream"
        )
    own_name = data.name.partition("/")[0]
    rules = short_name(dataset) if dataset else (own_name if own_name in CLIPS else BOTH_WAYS)
    names = _known(criteria, rules)
    keys = {name: f"dhauds/{rules}/{name}" for name in names}
    schedule = schedule_of(
        [[(Domain(name, (key,)), 1.0)] for name, key in keys.items()],
        samples_per_condition=samples_per_domain,
        data_size=len(data.labels),
        episodes=episodes,
    )
    plan = BlockPlan(schedule, order_named(order), data.labels, seed=seed)
    copies = {
        copy: Rendering(
            seed=SEEDS[copy] + seed,
            own={key: criterion_corruption(name, rules, noise, compat, copy) for name, key in keys.items()},
        )
        for copy in get_args(Copy)
    }
    return Stream(plan, data, copies["evaluation"], redraw=copies["adaptation"])


def _known(wanted: Sequence[str] | None, rules: str) -> list[str]:
    known = criteria(rules)
    if isinstance(wanted, str):
        raise ValueError(f"criteria={wanted!r} is one string; pass a list of names: [{wanted!r}]")
    for name in wanted or ():
        if name not in known:
            raise UnknownNameError(f"{rules} has no criterion {name!r}; {nearest(name, known)}")
    return list(known if wanted is None else wanted)
