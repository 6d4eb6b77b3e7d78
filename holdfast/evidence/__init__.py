"""Statements that hold at every stopping time: alarms, confidence sequences, and audits by labels."""

from holdfast.evidence.alarm import LossAlarm
from holdfast.evidence.audit import LabelAudit, LabelRequests
from holdfast.evidence.mean import Interval
from holdfast.evidence.sequence import ConfidenceSequence

__all__ = ["ConfidenceSequence", "Interval", "LabelAudit", "LabelRequests", "LossAlarm"]
