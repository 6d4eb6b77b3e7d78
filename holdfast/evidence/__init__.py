"""Statements that hold at every stopping time: alarms, confidence sequences and audits by labels."""

from holdfast.evidence.alarm import LossAlarm
from holdfast.evidence.sequence import ConfidenceSequence, Interval

__all__ = ["ConfidenceSequence", "Interval", "LossAlarm"]
