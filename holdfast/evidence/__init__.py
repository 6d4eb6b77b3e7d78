"""Statements that hold at every stopping time (alarms, confidence sequences, audits by labels), and calibration."""

from holdfast.evidence.alarm import LossAlarm
from holdfast.evidence.audit import LabelAudit, LabelRequests
from holdfast.evidence.mean import Interval
from holdfast.evidence.risk import RiskMonitor
from holdfast.evidence.scale import (
    Scale,
    scale_doubt,
    scale_from_accuracy,
    scale_from_agreement,
    scale_from_labels,
    scale_from_stream,
)
from holdfast.evidence.sequence import ConfidenceSequence

__all__ = [
    "ConfidenceSequence",
    "Interval",
    "LabelAudit",
    "LabelRequests",
    "LossAlarm",
    "RiskMonitor",
    "Scale",
    "scale_doubt",
    "scale_from_accuracy",
    "scale_from_agreement",
    "scale_from_labels",
    "scale_from_stream",
]
