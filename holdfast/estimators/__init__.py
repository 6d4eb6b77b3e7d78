"""Accuracy without labels."""

from holdfast.estimators.base import ESTIMATORS, Estimator
from holdfast.estimators.softmax_score import SoftmaxScore

__all__ = ["ESTIMATORS", "Estimator", "SoftmaxScore"]
