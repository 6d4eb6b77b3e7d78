"""Statements that hold at every stopping time (alarms, confidence sequences, label audits), and calibration."""

import warnings
from typing import Any

from holdfast.evidence.alarm import LossAlarm
from holdfast.evidence.label_audit import LabelAudit, LabelRequests
from holdfast.evidence.mean import Interval
from holdfast.evidence.risk import RiskMonitor
from holdfast.evidence.sequence import ConfidenceSequence
from holdfast.evidence.temperature import (
    Temperature,
    temperature_doubt,
    temperature_from_accuracy,
    temperature_from_agreement,
    temperature_from_labels,
    temperature_from_stream,
)

__all__ = [
    "ConfidenceSequence",
    "Interval",
    "LabelAudit",
    "LabelRequests",
    "LossAlarm",
    "RiskMonitor",
    "Temperature",
    "temperature_doubt",
    "temperature_from_accuracy",
    "temperature_from_agreement",
    "temperature_from_labels",
    "temperature_from_stream",
]

_FORMER = {  # until 0.4
    "Scale": "Temperature",
    "scale_doubt": "temperature_doubt",
    "scale_from_accuracy": "temperature_from_accuracy",
    "scale_from_agreement": "temperature_from_agreement",
    "scale_from_labels": "temperature_from_labels",
    "scale_from_stream": "temperature_from_stream",
}


def __getattr__(name: str) -> Any:
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} is called {_FORMER[name]} now; the old name goes in 0.4", DeprecationWarning, stacklevel=2
    )
    return globals()[_FORMER[name]]
