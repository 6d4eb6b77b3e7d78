"""Domains by name: a corruption, several joined by "+", or "clean"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from holdfast.corruptions import CORRUPTIONS
from holdfast.data import StoredCorruptions
from holdfast.records import Domain
from holdfast.registry import UnknownNameError, nearest

__all__ = ["CLEAN", "domains_named"]

CLEAN = "clean"


def domains_named(entries: Iterable[str | Domain], data: object = None) -> list[Domain]:
    """Return the domains of these names; refuse unknown corruptions.

    Of data that holds its corruptions, the domains are those that it holds.

    >>> domains_named(["clean", "gaussian_noise+jpeg"])[1]
    Domain(name='gaussian_noise+jpeg_compression', corruptions=('gaussian_noise', 'jpeg_compression'))
    """
    if isinstance(entries, str):
        raise ValueError(f"corruptions must be a list of names, got {entries!r}; pass [{entries!r}]")
    if isinstance(data, StoredCorruptions):
        return [entry if isinstance(entry, Domain) else _stored(entry, data.stored) for entry in entries]
    return [_domain_named(entry) if isinstance(entry, str) else _known(entry) for entry in entries]


def _stored(name: str, stored: Sequence[str]) -> Domain:
    if name == CLEAN:
        return Domain(CLEAN)
    full = name if name in stored or name not in CORRUPTIONS else CORRUPTIONS[name].name
    if full not in stored:
        raise UnknownNameError(f"the data do not hold the corruption {name!r}; {nearest(name, [*stored, CLEAN])}")
    return Domain(full, (full,))


def _domain_named(name: str) -> Domain:
    if name == CLEAN:
        return Domain(CLEAN)
    corruptions = _known(Domain(name, tuple(name.split("+")))).corruptions
    return Domain("+".join(corruptions), corruptions)


def _known(domain: Domain) -> Domain:
    """Return the domain with the full names of its corruptions."""
    for name in domain.corruptions:
        if name not in CORRUPTIONS:
            raise UnknownNameError(f"unknown corruption {name!r}; {nearest(name, [*CORRUPTIONS, CLEAN])}")
    return replace(domain, corruptions=tuple(CORRUPTIONS[name].name for name in domain.corruptions))
