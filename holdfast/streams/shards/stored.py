"""The plan of stored shards: their samples, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import CORRUPTIONS
from holdfast.data import Shards
from holdfast.records import Domain, Picks
from holdfast.streams.plans.domains import CLEAN
from holdfast.streams.plans.plan import Plan


class StoredPlan(Plan):
    """The samples in the order in which they are stored, without further corruption.

    The domain of a sample is named by the corruptions that its shard states, in full names, whatever their severities.
    """

    seed = 0

    def __init__(self, data: Shards) -> None:
        names = [
            "+".join(CORRUPTIONS[name].name if name in CORRUPTIONS else name for name in combination) or CLEAN
            for combination in data.combinations
        ]
        index = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self.domains = tuple(map(Domain, index))
        self.length = len(data.labels)
        self._domain_of = np.array([index[name] for name in names], np.int64)[data.combination_of]
        self._expected = data.expected

    def picks(self, start: int, stop: int) -> Picks:
        """Return the samples from `start` to `stop`, in the domains they were stored with."""
        self.check_span(start, stop)
        return Picks(np.arange(start, stop), self._domain_of[start:stop], np.empty((stop - start, 0)))

    def expected(self, positions: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return the expected accuracy at each position, if the stream that was exported had one."""
        return None if self._expected is None else self._expected[positions].astype(np.float64)

    def spec(self) -> dict[str, Any]:
        """Return a constant: the data alone decides."""
        return {"kind": "as stored", "version": 1}
