"""In which order samples come, and what has happened to them."""

from holdfast.streams.block_plan import BlockPlan
from holdfast.streams.ccc import CCC_SETTINGS, ccc, ccc_setting
from holdfast.streams.chain import Chain
from holdfast.streams.chain_report import ChainReport, StreamReport
from holdfast.streams.cross_plan import CrossPlan, cross
from holdfast.streams.dhauds import dhauds
from holdfast.streams.export import export_shards
from holdfast.streams.markov import markov
from holdfast.streams.markov_plan import MarkovPlan
from holdfast.streams.orders import ORDERS, Correlated, Order, Shuffled, Sorted
from holdfast.streams.plan import Plan
from holdfast.streams.schedule import Block, Cell, Schedule, schedule_of
from holdfast.streams.settings import continual, correlated, gradual, mixed_domains, reset_each_shift
from holdfast.streams.shards import Shards, as_stored, read_shards
from holdfast.streams.stream import STREAMS, Stream
from holdfast.streams.transitions import Calibration, Transition
from holdfast.streams.unitta import UNITTA_DOMAINS, UNITTA_MAIN, UNITTA_SETTINGS, unitta, unitta_setting
from holdfast.streams.walk import Walk
from holdfast.streams.walk_picture import walk_strip, write_walk_gif

__all__ = [
    "CCC_SETTINGS",
    "ORDERS",
    "STREAMS",
    "UNITTA_DOMAINS",
    "UNITTA_MAIN",
    "UNITTA_SETTINGS",
    "Block",
    "BlockPlan",
    "Calibration",
    "Cell",
    "Chain",
    "ChainReport",
    "Correlated",
    "CrossPlan",
    "MarkovPlan",
    "Order",
    "Plan",
    "Schedule",
    "Shards",
    "Shuffled",
    "Sorted",
    "Stream",
    "StreamReport",
    "Transition",
    "Walk",
    "as_stored",
    "ccc",
    "ccc_setting",
    "continual",
    "correlated",
    "cross",
    "dhauds",
    "export_shards",
    "gradual",
    "markov",
    "mixed_domains",
    "read_shards",
    "reset_each_shift",
    "schedule_of",
    "unitta",
    "unitta_setting",
    "walk_strip",
    "write_walk_gif",
]
