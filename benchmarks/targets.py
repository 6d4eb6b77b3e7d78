"""Read benchmarks/targets.toml: the aims of the benchmarks, and the figures that a quick run is compared by."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from measured import Figure

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("targets.toml")


@dataclass(frozen=True)
class Aim:
    """The range that figures of one pattern should lie in."""

    pattern: str
    at_least: float = -math.inf
    at_most: float = math.inf

    def text(self) -> str:
        """Return the aim in words."""
        return f"at most {self.at_most:g}" if self.at_most < math.inf else f"at least {self.at_least:g}"

    def judged(self, figures: Mapping[str, Figure]) -> Iterator[tuple[str, Figure, bool]]:
        """Yield path, figure and whether its median lies in the range, for each figure of the pattern."""
        for path, figure in figures.items():
            if fnmatchcase(path, self.pattern):
                yield path, figure, self.at_least <= figure.median <= self.at_most


@dataclass(frozen=True)
class Targets:
    """What is asked of one result."""

    compare: tuple[str, ...]  # patterns
    tolerance: float
    aims: tuple[Aim, ...]

    def outside(self, quick: Mapping[str, Figure], committed: Mapping[str, Figure]) -> Iterator[tuple[str, float]]:
        """Yield path and value of each compared figure of a quick run that lies outside the committed spread."""
        for path, figure in quick.items():
            kept = committed.get(path)
            if kept is None or not any(fnmatchcase(path, pattern) for pattern in self.compare):
                continue
            margin = self.tolerance * abs(kept.median)
            if not kept.low - margin <= figure.median <= kept.high + margin:
                yield path, figure.median


def read_targets(path: Path = FILE) -> dict[str, Targets]:
    """Return the targets of each result by the name of its file."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    tolerance = content.pop("tolerance")
    return {
        name: Targets(
            tuple(table["compare"]),
            table.get("tolerance", tolerance),
            tuple(Aim(pattern, **bounds) for pattern, bounds in table.get("aims", {}).items()),
        )
        for name, table in content.items()
    }
