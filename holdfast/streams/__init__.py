"""Streams: the order in which samples arrive, and the corruptions applied to them."""

from holdfast.data.shards import Shards, read_shards
from holdfast.registry import import_entries
from holdfast.streams.builder import STREAMS, StreamBuilder
from holdfast.streams.catalogue.as_stored import as_stored
from holdfast.streams.catalogue.ccc import CCC_SETTINGS, ccc, ccc_setting
from holdfast.streams.catalogue.continual import continual
from holdfast.streams.catalogue.correlated import correlated
from holdfast.streams.catalogue.cross import CrossPlan, cross
from holdfast.streams.catalogue.dhauds import dhauds
from holdfast.streams.catalogue.gradual import gradual
from holdfast.streams.catalogue.markov import markov
from holdfast.streams.catalogue.mixed_domains import mixed_domains
from holdfast.streams.catalogue.reset_each_shift import reset_each_shift
from holdfast.streams.catalogue.unitta import UNITTA_DOMAINS, UNITTA_MAIN, UNITTA_SETTINGS, unitta, unitta_setting
from holdfast.streams.chains.chain import Chain
from holdfast.streams.chains.chain_report import ChainReport, StreamReport
from holdfast.streams.chains.markov_plan import MarkovPlan
from holdfast.streams.listed import ListedStream
from holdfast.streams.plans.block_plan import BlockPlan
from holdfast.streams.plans.orders import ORDERS, Correlated, Order, Shuffled, Sorted
from holdfast.streams.plans.plan import Plan
from holdfast.streams.plans.schedule import Block, Condition, Schedule, schedule_of
from holdfast.streams.rendering import Rendering
from holdfast.streams.shards.export import export_shards
from holdfast.streams.stream import Stream
from holdfast.streams.walks.transitions import Calibration, Transition
from holdfast.streams.walks.walk import Walk
from holdfast.streams.walks.walk_image import walk_strip, write_walk_gif

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
    "Chain",
    "ChainReport",
    "Condition",
    "Correlated",
    "CrossPlan",
    "ListedStream",
    "MarkovPlan",
    "Order",
    "Plan",
    "Rendering",
    "Schedule",
    "Shards",
    "Shuffled",
    "Sorted",
    "Stream",
    "StreamBuilder",
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

import_entries("holdfast.streams.catalogue")
