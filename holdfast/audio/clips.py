"""The clips of DHAuDS: what data, corruptions and networks agree upon (Shao et al., arXiv 2511.18421)."""

from __future__ import annotations

__all__ = ["CLIPS"]

# Sample rate in hertz, and samples of a clip.
CLIPS = {"us8": (44_100, 176_400), "sc2": (16_000, 16_000), "vs": (16_000, 160_000), "rs": (16_000, 30_080)}
