"""Our methods against recorded outputs of the official implementations, logit by logit."""

from holdfast.conformance import entropy
from holdfast.conformance.case import STREAMS, Case, Verdict, judge

CASES: tuple[Case, ...] = (*entropy.CASES,)

__all__ = ["CASES", "STREAMS", "Case", "Verdict", "judge"]
