"""How to adapt: one paper, one file."""

from holdfast.methods.base import METHODS, Method, preset_for
from holdfast.methods.batch_norm import BatchNorm
from holdfast.methods.eata import Eata, Eta
from holdfast.methods.source import Source
from holdfast.methods.tent import Tent

__all__ = ["METHODS", "BatchNorm", "Eata", "Eta", "Method", "Source", "Tent", "preset_for"]
