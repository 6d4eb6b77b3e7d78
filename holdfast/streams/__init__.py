"""In which order samples come, and what has happened to them."""

from holdfast.streams.block_plan import BlockPlan
from holdfast.streams.orders import ORDERS, Correlated, Order, Shuffled, Sorted
from holdfast.streams.plan import Plan
from holdfast.streams.schedule import Block, Cell, Schedule, schedule_of
from holdfast.streams.settings import continual, correlated, gradual, mixed_domains, reset_each_shift
from holdfast.streams.stream import STREAMS, Stream

__all__ = [
    "ORDERS",
    "STREAMS",
    "Block",
    "BlockPlan",
    "Cell",
    "Correlated",
    "Order",
    "Plan",
    "Schedule",
    "Shuffled",
    "Sorted",
    "Stream",
    "continual",
    "correlated",
    "gradual",
    "mixed_domains",
    "reset_each_shift",
    "schedule_of",
]
