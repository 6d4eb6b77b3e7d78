"""Accuracy without labels: one estimator, one file; files that begin with an underscore are what several share."""

from holdfast.estimators._base import ESTIMATORS, Estimator
from holdfast.estimators._observation import Observation
from holdfast.registry import import_entries

__all__ = ["ESTIMATORS", "Estimator", "Observation"]

import_entries(__name__)
