"""Adaptation methods, one file per paper; files with a leading underscore hold code that methods share."""

from holdfast.methods._base import METHODS, Method, preset_for
from holdfast.methods._whole_network import classifier_part
from holdfast.registry import import_entries

__all__ = ["METHODS", "Method", "classifier_part", "preset_for"]

import_entries(__name__)
