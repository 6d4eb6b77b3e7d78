"""What an adapted model was built with, as plain JSON, and whether a saved state was made with the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from holdfast.estimators import ESTIMATORS, Estimator
from holdfast.registry import options_of
from holdfast.state import OtherStateError, SavedStateError


def options_given(part: object) -> dict[str, Any]:
    """Return the options a part was built with; each is kept in an attribute of the same name.

    >>> from holdfast.recovery.periodic import Periodic
    >>> options_given(Periodic(every_batches=5))
    {'every_batches': 5, 'scope': 'full'}
    """
    plain = json.dumps({name: getattr(part, name) for name in options_of(type(part))})
    return dict(json.loads(plain))


def estimator_given(name: str, estimator: Estimator) -> dict[str, Any]:
    """Return the options of an estimator, and its registered name if it is configured under another."""
    kind = ESTIMATORS.name_of(type(estimator))
    return {**({} if name == kind else {"name": kind}), **options_given(estimator)}


def check_estimator_name(name: str) -> None:
    """Raise for a name that torch cannot keep an estimator's state under."""
    if not name or "." in name or hasattr(nn.ModuleDict(), name):
        better = name.replace(".", "_") if "." in name else f"{name}_estimate"
        raise ValueError(f"{name!r} cannot be the name of an estimator; choose one without full stops, e.g. {better!r}")


def check_header(path: str | Path, header: Mapping[str, Any], *, recipe: Mapping[str, Any], weights: str) -> None:
    """Raise unless the header of a saved state names this recipe and these weights."""
    if set(header) != {"recipe", "weights", "note"}:
        raise SavedStateError(f"{path} is not the state of an adapted model; pass a file that `save` wrote")
    if header["weights"] != weights:
        raise OtherStateError(
            f"{path} belongs to a model with other weights ({str(header['weights'])[:8]}, here {weights[:8]}); adapt "
            "the model it was saved from and load it there"
        )
    if header["recipe"] != recipe:
        there = dict(header["recipe"] or {})
        fields = [key for key in sorted({*recipe, *there}) if recipe.get(key) != there.get(key)]
        differences = "; ".join(f"{key} is {there.get(key)!r} there and {recipe.get(key)!r} here" for key in fields)
        raise OtherStateError(f"{path} was saved by another recipe: {differences}; adapt with the same options")
