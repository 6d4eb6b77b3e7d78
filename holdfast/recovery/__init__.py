"""When and how to go back."""

from holdfast.recovery.base import RECOVERIES, Recovery
from holdfast.recovery.never import Never
from holdfast.recovery.periodic import Episodic, Periodic

__all__ = ["RECOVERIES", "Episodic", "Never", "Periodic", "Recovery"]
