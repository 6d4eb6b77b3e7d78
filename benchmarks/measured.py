"""Repeat a benchmark in separate processes, and write medians with their spread and facts on the machine as JSON.

`run(parser, measure)` is the main function of each benchmark that measures speed or memory. `measure(options)` measures
once and returns figures: nested mappings whose leaves are numbers or words. `run` calls it in `--processes` processes,
one after the other, prints the median of each figure with the lowest and the highest value, and writes them to the file
of `--json`. With `--quick` one process measures with fewer rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from holdfast.machine.folders import commit_of

CPU_FACTS = Path("/proc/cpuinfo")
PROCESSES = 3
PACKAGES = ("torch", "numpy", "scipy", "pillow", "numba", "opencv-python-headless", "holdfast")


@dataclass(frozen=True)
class Figure:
    """A measured number: the median, the lowest and the highest value of several processes."""

    median: float
    low: float
    high: float

    def text(self, digits: int = 2, factor: float = 1) -> str:
        """Return the median with its spread in brackets; a figure that was measured once has none.

        >>> Figure(2.204, 2.151, 2.281).text()
        '2.20 (2.15–2.28)'
        """
        median, low, high = (f"{factor * value:.{digits}f}" for value in (self.median, self.low, self.high))
        return median if self.low == self.high else f"{median} ({low}–{high})"

    def rounded(self) -> str:
        """Return the text with three digits or so.

        >>> Figure(1234.5, 1234.5, 1234.5).rounded(), Figure(0.0123, 0.0123, 0.0123).rounded()
        ('1234', '0.012')
        """
        size = abs(self.median)
        digits = 0 if size >= 100 or size == int(size) else 1 if size >= 20 else 2 if size >= 0.1 else 3
        return self.text(digits)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result with machine facts to this file")


def run(parser: argparse.ArgumentParser, measure: Callable[[argparse.Namespace], Mapping[str, Any]]) -> None:
    """Measure in several processes; print and write each figure with its spread."""
    add_json(parser)
    parser.add_argument("--processes", type=int, default=PROCESSES, help="repeat in separate processes (default: 3)")
    parser.add_argument("--quick", action="store_true", help="measure in one process, with fewer rounds")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)  # the number of this one, from 0
    options = parser.parse_args()
    if options.process is not None:
        options.json.write_text(json.dumps(measure(options), allow_nan=False), encoding="utf-8")
        return
    before = machine()
    runs = [_in_process(number) for number in range(1 if options.quick else options.processes)]
    median, spread = combined(runs)
    for line in lines(median, spread):
        print(line)
    write(options.json, median, spread, processes=len(runs), quick=options.quick, before=before)


def _in_process(number: int) -> Any:
    """Return the figures of this program with these arguments, measured in a process of its own."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        subprocess.run([sys.executable, *sys.argv, "--process", str(number), "--json", str(path)], check=True)
        print(f"process {number + 1}: {time.perf_counter() - began:.0f} s", flush=True)
        return json.loads(path.read_text(encoding="utf-8"))


def combined(runs: Sequence[Any]) -> tuple[Any, Any]:
    """Return the medians of the figures of several runs, and the lowest and highest value of each that was repeated.

    >>> combined([{"tent": {"forwards": forwards, "waits": 2}} for forwards in (2.5, 2.25, 2.75)])
    ({'tent': {'forwards': 2.5, 'waits': 2}}, {'tent': {'forwards': [2.25, 2.75]}})
    """
    if isinstance(runs[0], dict):
        names = dict.fromkeys(name for each in runs for name in each)
        parts = {name: combined([each[name] for each in runs if name in each]) for name in names}
        spreads = {name: spread for name, (_, spread) in parts.items() if spread}
        return {name: median for name, (median, _) in parts.items()}, spreads
    if len({*runs}) == 1 or not all(isinstance(value, int | float) for value in runs):
        return Counter(runs).most_common(1)[0][0], None
    return statistics.median(runs), [min(runs), max(runs)]


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each leaf of nested mappings.

    >>> list(leaves({"tent": {"forwards": 2.5}, "rounds": 9}))
    [(('tent', 'forwards'), 2.5), (('rounds',), 9)]
    """
    if not isinstance(tree, Mapping):
        yield path, tree
        return
    for name, part in tree.items():
        yield from leaves(part, (*path, name))


def figures(content: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the numbers of a result by paths like "tent/forwards"; those without a spread were measured once."""
    spread = dict(leaves(content.get("spread", {})))
    numbers = {path: value for path, value in leaves(content["measured"]) if isinstance(value, int | float)}
    return {"/".join(path): Figure(value, *spread.get(path, (value, value))) for path, value in numbers.items()}


def rows(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the innermost mappings of a result by their labels: numbers as figures, words as they are."""
    known, labelled = figures(content), dict[str, dict[str, Any]]()
    for (*label, name), value in leaves(content["measured"]):
        labelled.setdefault(", ".join(label), {})[name] = known.get("/".join((*label, name)), value)
    return labelled


def lines(median: Mapping[str, Any], spread: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each innermost mapping."""
    for label, row in rows({"measured": median, "spread": spread}).items():
        texts = [f"{name} {value.rounded() if isinstance(value, Figure) else value}" for name, value in row.items()]
        yield f"{label or 'all'}: {', '.join(texts)}"


def write(
    path: Path | None,
    measured: Mapping[str, Any],
    spread: Mapping[str, Any] | None = None,
    *,
    before: Mapping[str, Any] | None = None,
    **facts: Any,
) -> None:
    """Write the result; without a path, do nothing. `before` are facts on the machine from before the measurement."""
    if path is None:
        return
    content = {"machine": before or machine(), **facts, "measured": measured}
    content |= {"spread": spread} if spread else {}
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(f"wrote {path}")


def in_turn(*calls: Callable[[], object], rounds: int, seconds: float = 0.0) -> list[float]:
    """Return the median processor time of each call, measured in alternation so that other jobs slow down all.

    There are at least so many rounds, and more until the seconds are over; the first one warms up. A call that returns
    a float has measured its own time.
    """
    times: list[list[float]] = []
    until = time.perf_counter() + seconds
    while len(times) <= rounds or time.perf_counter() < until:
        times.append([])
        for call in calls:
            start = time.process_time()
            own = call()
            times[-1].append(own if isinstance(own, float) else time.process_time() - start)
    return [statistics.median(column) for column in zip(*times[1:], strict=True)]


def machine() -> dict[str, Any]:
    """Return processor, cores, load, versions, commit and time."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,  # over the last minute
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: installed(package) for package in PACKAGES},
        "commit": commit_of(),
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def installed(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """Return the name of the processor; Linux keeps it in a file."""
    lines = CPU_FACTS.read_text(encoding="utf-8").splitlines() if CPU_FACTS.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
