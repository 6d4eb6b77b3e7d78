"""Markov streams: domains and classes from a chain each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.data import Dataset
from holdfast.options.ranges import Count, JpegQuality, Severity
from holdfast.records import Domain
from holdfast.streams.builder import STREAMS
from holdfast.streams.chains.chain import Chain, chain_of
from holdfast.streams.chains.markov_plan import Exhaust, MarkovPlan, Mode
from holdfast.streams.plans.domains import classes_of_all, domains_named, pools_of
from holdfast.streams.rendering import Draws, Renderer, Rendering
from holdfast.streams.stream import Stream

Options = Chain | Mapping[str, Any]


@STREAMS.register("markov", citation="Du et al., arXiv 2407.20080 (UniTTA)")
def markov(
    data: Dataset,
    *,
    corruptions: Sequence[str | Domain],
    severity: Severity = 5,
    domains: Options | None = None,
    classes: Options | Sequence[Options] | None = None,
    class_head_shift: int = 0,
    mode: Mode = "stationary",
    samples: Count | None = None,
    samples_per_stratum: Count | None = None,
    exhaust: Exhaust = "cycle",
    endless: bool = False,
    seed: int = 0,
    family: str | None = None,
    storage_jpeg_quality: JpegQuality | None = None,
    draws: Draws = "sample",
    renderer: Renderer = "numpy",
    render_device: str = "cpu",
) -> Stream:
    """Domains and classes from a Markov chain each: correlated, imbalanced, both or neither.

    The states of the class chain are the classes that occur in the data, or in all natural domains.

    Args:
        data: labelled samples, such as `Digits()`.
        corruptions: names of corruptions or domains: the states of the domain chain.
        severity: from 0 (unchanged) to 5.
        domains: options of the `Chain` of domains, such as `{"stay": 0.95, "imbalance": 10}`; the default is i.i.d. and
            balanced.
        classes: the same for classes, or a list with a chain for each domain.
        class_head_shift: number of classes by which the head class moves from each domain to the next.
        mode: "stationary", or "official" for the rules of the official code of UniTTA.
        samples: length of a stationary stream; by default the size of the data times the domains.
        samples_per_stratum: of the official mode: samples of each class in each domain; by default what the data holds.
        exhaust: what happens when a class of a domain is used up: "cycle" starts again, "stop" ends the stream, "error"
            raises.
        endless: whether pieces of this length follow one another, each drawn anew.
        seed: of all draws.
        family: severity tables; None: those that fit the size of the images.
        storage_jpeg_quality: quality at which images are stored as JPEG after their corruption; None: they are not.
        draws: "sample": a sample looks the same at every visit; "position": drawn anew.
        renderer: "numpy", or "torch" for batches on a device.
        render_device: of the torch renderer.
    """
    named = domains_named(corruptions, data)
    given = classes if isinstance(classes, Sequence) else [classes or {}]
    pools = pools_of(named, data)
    chains = [chain_of("classes", len(classes_of_all(data.labels, pools)), options) for options in given]
    if class_head_shift:
        one_each = chains * len(named) if len(chains) == 1 else chains
        chains = [replace(chain, head=chain.head + class_head_shift * index) for index, chain in enumerate(one_each)]
    plan = MarkovPlan(
        named,
        data.labels,
        chain_of("domains", len(named), domains or {}) if named else Chain(size=1),
        chains,
        severity=severity,
        pools=pools,
        mode=mode,
        samples=samples,
        samples_per_stratum=samples_per_stratum,
        exhaust=exhaust,
        endless=endless,
        seed=seed,
    )
    return Stream(
        plan, data, Rendering(seed, draws, family, storage_jpeg_quality, renderer=renderer, device=render_device)
    )
