"""The clips of DHAuDS, on which data, corruptions and networks agree (Shao et al., arXiv 2511.18421)."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.registry import UnknownNameError, nearest

# Sample rate in hertz, and samples per clip.
CLIPS = {"us8": (44_100, 176_400), "sc2": (16_000, 16_000), "vs": (16_000, 160_000), "rs": (16_000, 30_080)}
FULL_NAMES = {"us8": "urbansound8k", "sc2": "speech_commands", "vs": "vocalsound", "rs": "reefset"}


def version_named(version: str, known: Collection[str], network: str) -> str:
    """Return the abbreviation of the data set whose version of a network is asked for, or raise if there is none.

    >>> version_named("speech_commands", ["sc2"], "AMAuT")
    'sc2'
    """
    version = short_name(version)
    if version not in known:
        raise UnknownNameError(f"unknown version {version!r} of {network}; {nearest(version, known)}")
    return version


def short_name(dataset: str) -> str:
    """Return the abbreviation under which DHAuDS publishes a data set; any other name is returned unchanged.

    >>> short_name("speech_commands"), short_name("sc2"), short_name("cochlscene")
    ('sc2', 'sc2', 'cochlscene')
    """
    return next((short for short, full in FULL_NAMES.items() if full == dataset), dataset)
