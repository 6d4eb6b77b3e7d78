"""Check a network and its data before adapting: what is wrong, what that costs, and what to do."""

from holdfast.diagnosis.costs import StepCost
from holdfast.diagnosis.doctor import DEFAULT_METHODS, Diagnosis, doctor
from holdfast.diagnosis.findings import Finding

__all__ = ["DEFAULT_METHODS", "Diagnosis", "Finding", "StepCost", "doctor"]
