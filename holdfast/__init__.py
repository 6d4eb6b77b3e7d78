"""Test-time adaptation for PyTorch classifiers that estimates whether it helps and goes back when it does not."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.anchor import Card, make_card, read_card
    from holdfast.commands.description import describe, list_methods
    from holdfast.commands.recommend import recommend
    from holdfast.connect import from_hub, push_to_hub
    from holdfast.diagnosis import doctor
    from holdfast.estimators import Estimator
    from holdfast.methods import Method
    from holdfast.model.adapted import AdaptedModel
    from holdfast.model.guarded import GuardedModel
    from holdfast.options.own_code import import_file
    from holdfast.records import Step
    from holdfast.recovery import Recovery
    from holdfast.report.inline import plot
    from holdfast.report.results import results
    from holdfast.signatures import adapt, guard
    from holdfast.streams import Stream

__version__ = "0.3.0"

# Importing is free: a name brings in its room, and torch with it, when it is first used.
_HOMES = {
    "AdaptedModel": "holdfast.model.adapted",
    "Card": "holdfast.anchor",
    "Estimator": "holdfast.estimators",
    "GuardedModel": "holdfast.model.guarded",
    "Method": "holdfast.methods",
    "Recovery": "holdfast.recovery",
    "Step": "holdfast.records",
    "Stream": "holdfast.streams",
    "adapt": "holdfast.model.adapt",
    "describe": "holdfast.commands.description",
    "doctor": "holdfast.diagnosis",
    "from_hub": "holdfast.connect",
    "guard": "holdfast.model.guarded",
    "import_file": "holdfast.options.own_code",
    "list_methods": "holdfast.commands.description",
    "make_card": "holdfast.anchor",
    "plot": "holdfast.report.inline",
    "push_to_hub": "holdfast.connect",
    "read_card": "holdfast.anchor",
    "recommend": "holdfast.commands.recommend",
    "results": "holdfast.report.results",
}

__all__ = [
    "AdaptedModel",
    "Card",
    "Estimator",
    "GuardedModel",
    "Method",
    "Recovery",
    "Step",
    "Stream",
    "__version__",
    "adapt",
    "describe",
    "doctor",
    "from_hub",
    "guard",
    "import_file",
    "list_methods",
    "make_card",
    "plot",
    "push_to_hub",
    "read_card",
    "recommend",
    "results",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if not name.startswith("_") and importlib.util.find_spec(f"holdfast.{name}") is not None:
        return importlib.import_module(f"holdfast.{name}")  # `holdfast.streams` after `import holdfast`
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
