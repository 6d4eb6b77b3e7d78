"""When and how a model returns to an earlier state: one recovery, one file."""

from holdfast.recovery._base import RECOVERIES, Recovery
from holdfast.registry import import_entries

__all__ = ["RECOVERIES", "Recovery"]

import_entries(__name__)
