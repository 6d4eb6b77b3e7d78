"""DHAuDS: its criteria one after the other on any audio data, each from the source model, with published seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from holdfast.audio import CLIPS, short_name
from holdfast.corruptions.audio.criteria import BOTH_WAYS, Noise, criterion_corruption
from holdfast.corruptions.audio.dhauds import SEEDS, Copy, criteria
from holdfast.data import Dataset, StoredCorruptions
from holdfast.options.ranges import Count
from holdfast.records import Domain
from holdfast.registry import UnknownNameError, nearest
from holdfast.streams.builder import STREAMS
from holdfast.streams.plans.block_plan import BlockPlan
from holdfast.streams.plans.orders import order_named
from holdfast.streams.plans.schedule import schedule_of
from holdfast.streams.rendering import Rendering
from holdfast.streams.stream import Stream


@STREAMS.register("dhauds", citation="Shao et al., arXiv 2511.18421")
def dhauds(
    data: Dataset,
    *,
    criteria: Sequence[str] | None = None,
    dataset: str | None = None,
    noise: Noise = None,
    compat: bool = False,
    episodes: bool = True,
    samples_per_domain: Count | None = None,
    order: str = "shuffled",
    seed: int = 0,
) -> Stream:
    """Criteria of DHAuDS such as "ENQ-L1", by default all, each a separate domain and episode.

    The draws use the published seeds plus `seed`: 123456 for the stream itself, 2025 for `redrawn()`, which offline
    protocols adapt to. Of a released set such as SC2-C the stored clips are the stream. Each clip has its own
    generator, which is ours.

    Args:
        data: audio with labels.
        criteria: such as "ENQ-L1"; by default all.
        dataset: whose criteria they are: "urbansound8k", "speech_commands", "vocalsound" or "reefset" (or "us8", "sc2",
            "vs", "rs"); by default the data's own, or those of "vocalsound" for other data.
        noise: the folder of the corpora, or `{ENQ: folder, …}` with embedded noise for the rest, or your own
            recordings, `{recordings: folder or Parquet file, ENQ: {L1: [label, …], L2: …}, …}`.
        compat: whether to reproduce the errors of the official code.
        episodes: whether each criterion starts from the source model.
        samples_per_domain: of each criterion; by default all of the data.
        order: of the classes.
        seed: added to the published ones.

    >>> import numpy as np
    >>> from holdfast.data import InMemoryAudio
    >>> words = InMemoryAudio(np.ones((6, 4_000), np.float32), np.arange(6) % 2, sample_rate=16_000)
    >>> stream = dhauds(words, criteria=["WHN-L1", "PSH-L2"])
    >>> stream.domains, stream.episodes(12)
    (('WHN-L1', 'PSH-L2'), [(0, 6), (6, 12)])
    """
    if data.input_spec.kind != "audio":
        raise ValueError(f"dhauds needs audio data, and {data.name} holds none; choose another stream")
    own_name = data.name.partition("/")[0].removesuffix("_c")
    rules = short_name(dataset) if dataset else (own_name if own_name in CLIPS else BOTH_WAYS)
    names = _known(criteria, rules)
    stored = isinstance(data, StoredCorruptions)
    keys = {name: name if stored else f"dhauds/{rules}/{name}" for name in names}
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
    # A released set is the evaluation copy itself; the adaptation copy is computed from the original clips.
    evaluation = Rendering(SEEDS["evaluation"] + seed) if stored else copies["evaluation"]
    return Stream(plan, data, evaluation, redraw=copies["adaptation"])


def _known(wanted: Sequence[str] | None, rules: str) -> list[str]:
    known = criteria(rules)
    for name in wanted or ():
        if name not in known:
            raise UnknownNameError(f"{rules} has no criterion {name!r}; {nearest(name, known)}")
    return list(known if wanted is None else wanted)
