"""BDN: the normalisation of UniTTA on its own."""

from __future__ import annotations

from typing import ClassVar

from holdfast.methods.base import METHODS
from holdfast.methods.by_domain import ByDomain

__all__ = ["Bdn"]


@METHODS.register("bdn")
class Bdn(ByDomain):
    """x"""

    citation = "Du et al., 2024 (UniTTA)"
