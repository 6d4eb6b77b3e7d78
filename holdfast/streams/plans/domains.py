"""Domains by name: a corruption, several joined by "+", or "clean"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.corruptions import CORRUPTIONS
from holdfast.records import Domain
from holdfast.registry import UnknownNameError, nearest

__all__ = ["CLEAN", "domains_named"]

CLEAN = "clean"


def domains_named(entries: Iterable[str | Domain]) -> list[Domain]:
    """Return the domains of these names; refuse unknown corruptions.

    >>> domains_named(["clean", "gaussian_noise+jpeg"])[1]
    Domain(name='gaussian_noise+jpeg_compression', corruptions=('gaussian_noise', 'jpeg_compression'))
    """
    if isinstance(entries, str):
        raise ValueError(f"corruptions must be a list of names, got {entries!r}; pass [{entries!r}]")
    return [_domain_named(entry) if isinstance(entry, str) else _known(entry) for entry in entries]


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
