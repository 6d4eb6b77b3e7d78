"""When and how to go back."""

from holdfast.recovery.adaptive import Adaptive
from holdfast.recovery.base import RECOVERIES, Recovery
from holdfast.recovery.estimate_drop import EstimateDrop
from holdfast.recovery.fisher import Fisher
from holdfast.recovery.last_good import LastGood
from holdfast.recovery.loss_collapse import LossCollapse
from holdfast.recovery.never import Never
from holdfast.recovery.oracle import Oracle
from holdfast.recovery.periodic import Episodic, Periodic
from holdfast.recovery.regret import Regret
from holdfast.recovery.stochastic import Stochastic

__all__ = [
    "RECOVERIES",
    "Adaptive",
    "Episodic",
    "EstimateDrop",
    "Fisher",
    "LastGood",
    "LossCollapse",
    "Never",
    "Oracle",
    "Periodic",
    "Recovery",
    "Regret",
    "Stochastic",
]
