"""How to adapt: one paper, one file; files that begin with an underscore are what several methods share."""

from holdfast.methods._base import METHODS, Method, preset_for
from holdfast.methods._whole_network import classifier_part
from holdfast.registry import import_entries

__all__ = ["METHODS", "Method", "classifier_part", "preset_for"]

import_entries(__name__)
