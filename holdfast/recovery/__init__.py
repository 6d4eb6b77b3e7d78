"""When and how to go back."""

from holdfast.recovery.base import RECOVERIES, Recovery
from holdfast.recovery.loss_collapse import LossCollapse
from holdfast.recovery.never import Never
from holdfast.recovery.periodic import Episodic, Periodic
from holdfast.recovery.stochastic import Stochastic

__all__ = ["RECOVERIES", "Episodic", "LossCollapse", "Never", "Periodic", "Recovery", "Stochastic"]
