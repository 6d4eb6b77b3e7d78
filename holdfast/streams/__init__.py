"""In which order samples come, and what has happened to them."""

from holdfast.streams.block_plan import BlockPlan
from holdfast.streams.ccc import CCC_SETTINGS, ccc, ccc_setting
from holdfast.streams.export import export_shards
from holdfast.streams.orders import ORDERS, Correlated, Order, Shuffled, Sorted
from holdfast.streams.plan import Plan
from holdfast.streams.schedule import Block, Cell, Schedule, schedule_of
from holdfast.streams.settings import continual, correlated, gradual, mixed_domains, reset_each_shift
from holdfast.streams.shards import Shards, as_stored, read_shards
from holdfast.streams.stream import STREAMS, Stream
from holdfast.streams.transitions import Calibration, Transition
from holdfast.streams.walk import Walk
from holdfast.streams.walk_picture import walk_strip, write_walk_gif

__all__ = [
    "CCC_SETTINGS",
    "ORDERS",
    "STREAMS",
    "Block",
    "BlockPlan",
    "Calibration",
    "Cell",
    "Correlated",
    "Order",
    "Plan",
    "Schedule",
    "Shards",
    "Shuffled",
    "Sorted",
    "Stream",
    "Transition",
    "Walk",
    "as_stored",
    "ccc",
    "ccc_setting",
    "continual",
    "correlated",
    "export_shards",
    "gradual",
    "mixed_domains",
    "read_shards",
    "reset_each_shift",
    "schedule_of",
    "walk_strip",
    "write_walk_gif",
]
