"""Accuracy without labels."""

from holdfast.estimators.adv_perturb import AdvPerturb
from holdfast.estimators.aetta import Aetta
from holdfast.estimators.anchored import Anchored
from holdfast.estimators.base import ESTIMATORS, Estimator
from holdfast.estimators.dropout import Dropout
from holdfast.estimators.gde import Gde
from holdfast.estimators.observation import Observation
from holdfast.estimators.pdd import Pdd
from holdfast.estimators.softmax_score import SoftmaxScore
from holdfast.estimators.source_validation import SourceValidation

__all__ = [
    "ESTIMATORS",
    "AdvPerturb",
    "Aetta",
    "Anchored",
    "Dropout",
    "Estimator",
    "Gde",
    "Observation",
    "Pdd",
    "SoftmaxScore",
    "SourceValidation",
]
