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

    `domains` and `classes` are options of `Chain`, such as `{stay: 0.95, imbalance: 10}`; the default is i.i.d. and
    balanced. `classes` may be a list with a chain for each domain. `class_head_shift` moves the head class by this many
    classes from each domain to the next. The other options are those of `MarkovPlan`. The states of the class chain are
    the classes that occur in the data, or in all natural domains. `renderer` and `render_device` are those of
    `Rendering`.
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
