"""The catalogue of all registries: printed by `holdfast list`, and the source of the documentation."""

from __future__ import annotations

from holdfast.benchmark import load_suite, suite_names
from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS
from holdfast.estimators import ESTIMATORS
from holdfast.methods import METHODS
from holdfast.models import MODELS
from holdfast.recipes import RECIPES
from holdfast.recovery import RECOVERIES
from holdfast.registry import Entry
from holdfast.streams import STREAMS


def catalogue() -> dict[str, list[Entry]]:
    """Return name, summary and citation of every entry, by room.

    >>> "tent" in [entry.name for entry in catalogue()["methods"]]
    True
    """
    recipes = [entry for entry in RECIPES.entries() if entry.name not in METHODS]
    return {
        "methods": sorted([*METHODS.entries(), *recipes], key=lambda entry: entry.name),
        "recoveries": RECOVERIES.entries(),
        "estimators": ESTIMATORS.entries(),
        "corruptions": CORRUPTIONS.entries(),
        "streams": STREAMS.entries(),
        "suites": [_suite(name) for name in suite_names()],
        "models": MODELS.entries(),
        "data": DATASETS.entries(),
    }


def _suite(name: str) -> Entry:
    """Return a suite with its scales, which `--scale` takes."""
    suite = load_suite(name)
    scales = f" Scales: {', '.join(suite.scales)}." if suite.scales else ""
    return Entry(name, f"{suite.summary.strip()}{scales}")
