"""Domains by name: a corruption, several joined by "+", a natural domain of the data, or "clean"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import CORRUPTIONS
from holdfast.data import Dataset, NaturalDomains, StoredCorruptions
from holdfast.records import Domain
from holdfast.registry import UnknownNameError, nearest

CLEAN = "clean"
Pools = Sequence[NDArray[np.int64]]  # the samples of each domain, by index into the data


def domains_named(entries: Iterable[str | Domain], data: object = None) -> list[Domain]:
    """Return the domains of these names; refuse unknown corruptions.

    Of data that holds its corruptions, the domains are those that it holds. Of data with natural domains they are
    these, as they are or corrupted (`sketch+fog`); a corruption alone, or `clean`, is that of all samples.

    >>> domains_named(["clean", "gaussian_noise+jpeg"])[1].name
    'gaussian_noise+jpeg_compression'
    """
    if isinstance(entries, str):
        raise ValueError(f"corruptions must be a list of names, got {entries!r}; pass [{entries!r}]")
    if isinstance(data, StoredCorruptions):
        return [entry if isinstance(entry, Domain) else _stored(entry, data.stored) for entry in entries]
    parts = data.domain_names if isinstance(data, NaturalDomains) else ()
    return [_domain_named(entry, parts) if isinstance(entry, str) else _known(entry, parts) for entry in entries]


def pools_of(domains: Sequence[Domain], data: Dataset) -> Pools | None:
    """Return the samples of each domain, or None if every domain has all of them."""
    if all(domain.part is None for domain in domains):
        return None
    assert isinstance(data, NaturalDomains)
    every, names = np.arange(len(data.labels)), list(data.domain_names)
    return [every if each.part is None else every[data.domain_of == names.index(each.part)] for each in domains]


def classes_of_all(labels: NDArray[np.int64], pools: Pools | None) -> NDArray[np.int64]:
    """Return the labels that occur in every domain, sorted.

    >>> labels = np.array([0, 1, 2, 2, 0])
    >>> classes_of_all(labels, None).tolist(), classes_of_all(labels, [np.arange(3), np.arange(3, 5)]).tolist()
    ([0, 1, 2], [0, 2])
    """
    common = np.unique(labels)
    for pool in pools or ():
        common = np.intersect1d(common, labels[pool])
    return common


def _stored(name: str, stored: Sequence[str]) -> Domain:
    if name == CLEAN:
        return Domain(CLEAN)
    full = name if name in stored or name not in CORRUPTIONS else CORRUPTIONS[name].name
    if full not in stored:
        raise UnknownNameError(f"the data do not hold the corruption {name!r}; {nearest(name, [*stored, CLEAN])}")
    return Domain(full, (full,))


def _domain_named(name: str, parts: Sequence[str] = ()) -> Domain:
    if name == CLEAN:
        return Domain(CLEAN)
    # The name of a natural domain may hold a "+" itself.
    part = next((part for part in parts if name == part or name.startswith(f"{part}+")), None)
    left = name if part is None else name[len(part) + 1 :]
    corruptions = _known(Domain(name, tuple(left.split("+")) if left else (), part), parts).corruptions
    return Domain("+".join([*([] if part is None else [part]), *corruptions]), corruptions, part)


def _known(domain: Domain, parts: Sequence[str] = ()) -> Domain:
    """Return the domain with the full names of its corruptions."""
    if domain.part is not None and domain.part not in parts:
        raise UnknownNameError(f"the data have no domain {domain.part!r}; {nearest(domain.part, [*parts, CLEAN])}")
    for name in domain.corruptions:
        if name not in CORRUPTIONS:
            kind = "domain or corruption" if parts else "corruption"
            raise UnknownNameError(f"unknown {kind} {name!r}; {nearest(name, [*parts, *CORRUPTIONS, CLEAN])}")
    return replace(domain, corruptions=tuple(CORRUPTIONS[name].name for name in domain.corruptions))
