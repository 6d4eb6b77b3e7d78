"""Calibration: the severities of two corruptions at which the accuracy of a model stays near a target."""

from holdfast.calibration.calibrate import calibrate
from holdfast.calibration.interpolate import interpolate_percent
from holdfast.calibration.matrices import calibration_of, import_matrices
from holdfast.calibration.meter import CalibrationProgress
from holdfast.calibration.settings import CalibrationSettings
from holdfast.calibration.store import default_cache
from holdfast.streams import Calibration, Transition

__all__ = [
    "Calibration",
    "CalibrationProgress",
    "CalibrationSettings",
    "Transition",
    "calibrate",
    "calibration_of",
    "default_cache",
    "import_matrices",
    "interpolate_percent",
]
