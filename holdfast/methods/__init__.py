"""How to adapt: one paper, one file."""

from holdfast.methods.balanced_bn import BalancedBatchNorm
from holdfast.methods.base import METHODS, Method, preset_for
from holdfast.methods.batch_norm import BatchNorm
from holdfast.methods.bdn import Bdn
from holdfast.methods.cofa import Cofa
from holdfast.methods.conmix import Conmix
from holdfast.methods.cotta import Cotta
from holdfast.methods.cpl import Cpl
from holdfast.methods.dhauds import Dhauds
from holdfast.methods.eata import Eata, Eta
from holdfast.methods.lame import Lame
from holdfast.methods.neo import Neo
from holdfast.methods.note import Note
from holdfast.methods.robust_bn import RobustBatchNorm
from holdfast.methods.roid import Roid
from holdfast.methods.rotta import Rotta
from holdfast.methods.rpl import Rpl
from holdfast.methods.sar import Sar
from holdfast.methods.slr import Slr
from holdfast.methods.sotta import Sotta
from holdfast.methods.source import Source
from holdfast.methods.t3a import T3a
from holdfast.methods.tent import Tent
from holdfast.methods.tribe import Tribe
from holdfast.methods.unitta import Unitta
from holdfast.methods.unitta_auto import UnittaAuto
from holdfast.methods.unmix_tns import UnmixTns

__all__ = [
    "METHODS",
    "BalancedBatchNorm",
    "BatchNorm",
    "Bdn",
    "Cofa",
    "Conmix",
    "Cotta",
    "Cpl",
    "Dhauds",
    "Eata",
    "Eta",
    "Lame",
    "Method",
    "Neo",
    "Note",
    "RobustBatchNorm",
    "Roid",
    "Rotta",
    "Rpl",
    "Sar",
    "Slr",
    "Sotta",
    "Source",
    "T3a",
    "Tent",
    "Tribe",
    "Unitta",
    "UnittaAuto",
    "UnmixTns",
    "preset_for",
]
