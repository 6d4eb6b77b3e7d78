"""Write what a benchmark measured as JSON, with facts on the machine: the option `--json FILE` of all benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from holdfast.benchmark.provenance import commit_of

CPU_FACTS = Path("/proc/cpuinfo")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result with machine facts to this file")


def write(path: Path | None, measured: Mapping[str, Any]) -> None:
    """Write the result; without a path, do nothing."""
    if path is None:
        return
    content = {"machine": machine(), "measured": measured}
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(f"wrote {path}")


def machine() -> dict[str, Any]:
    """Return processor, cores, load, versions, commit and time."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,  # over the last minute
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "numpy", "holdfast")},
        "commit": commit_of(),
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def processor() -> str:
    """Return the name of the processor; Linux keeps it in a file."""
    lines = CPU_FACTS.read_text(encoding="utf-8").splitlines() if CPU_FACTS.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
