"""Kill workers and parents of a bench at random, resume it, and compare rows: python benchmarks/kills.py --kills 40.

A bench of grouped recipes on two seeds runs by the executor `processes`. SIGKILL hits its parent or one of its workers
after a random number of rows, so that a fast machine is hit as often as a slow one; the same command runs again until
all runs are finished, and their rows are compared with those of an undisturbed serial bench, all columns but the
timings. This repeats until there were enough kills. The goal is 0 differing rows, 0 benches that do not end, and 0
workers that outlive their parent by ten seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from measured import add_json, write

from holdfast.benchmark import Job, bench, parse_suite

SUITE = """\
name: kills
models: [digits_resnet]
batch_size: 16
samples: SAMPLES
seeds: [0, 1]
source: {name: digits, split: train, samples: 64}
streams: [{name: continual, data: {name: digits, split: test}, corruptions: [contrast, fog], samples_per_domain: HALF}]
recipes: [source, {name: tent, lr: 0.01}, {name: rdumb, every_batches: 7}, rotta]
"""
TIMINGS = ("step_seconds",)
PAUSE = 0.25  # of the rows of the whole bench: at most as many are written before the next kill
PATIENCE = 300  # seconds without a new row until a bench is killed and counted as hanging
SURVIVAL = 10  # seconds until a worker without a parent is killed and counted as a survivor


def jobs_of(samples: int) -> list[Job]:
    """Return the jobs of the suite, with this many samples each."""
    return parse_suite(SUITE.replace("SAMPLES", str(samples)).replace("HALF", str(samples // 2))).jobs()


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a run without its timings."""
    lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in TIMINGS} for row in lines]


def written(runs: Path) -> int:
    """Return the size of all rows, in bytes."""
    return sum(path.stat().st_size for path in runs.glob("*/*/rows.jsonl"))


def session(leader: int) -> dict[int, int]:
    """Return the living processes of a session with their parents."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                if (
                    int(words[3]) == leader
                    and words[0] != "Z"
                    and b"resource_tracker" not in (entry / "cmdline").read_bytes()
                ):
                    parents[int(entry.name)] = int(words[1])
            except OSError:
                continue
    return parents


def disturbed(
    runs: Path, samples: int, whole: int, chance: random.Random, victims: list[str], most: int
) -> tuple[bool, int]:
    """Run the bench of `whole` bytes of rows once, with kills until there are `most`; return hung, survivors."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--bench", str(runs), "--samples", str(samples)],
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    end, seen, new, strike = time.monotonic() + PATIENCE, written(runs), 0, chance.uniform(0, PAUSE) * whole
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
        if (size := written(runs)) > seen:
            end, new = time.monotonic() + PATIENCE, new + size - seen
        seen = size
        if new > strike and len(victims) < most:
            alive = session(process.pid)
            leaves = [pid for pid in alive if pid not in alive.values() and pid != process.pid]
            victim = process.pid if not leaves or chance.random() < 0.4 else chance.choice(leaves)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:  # it had just ended
                continue
            victims.append("parent" if victim == process.pid else "worker")
            strike = new + chance.uniform(0, PAUSE) * whole
            print(victims[-1], end=" ", flush=True)
    hung = process.poll() is None
    if hung:
        process.kill()
    process.wait()
    end = time.monotonic() + SURVIVAL
    while session(process.pid) and time.monotonic() < end:
        time.sleep(0.1)
    survivors = session(process.pid)
    for left in survivors:
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)
    return hung, len(survivors)


def main() -> None:
    """Kill until there were enough, and print how many rows differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--samples", type=int, default=640, help="of each run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bench", type=Path, help=argparse.SUPPRESS)  # the program that is killed
    add_json(parser)
    given = parser.parse_args()
    jobs = jobs_of(given.samples)
    if given.bench:
        bench(jobs, given.bench, executor="processes", workers=2, checkpoint_seconds=1.0, render_workers=0)
        return
    chance, victims = random.Random(given.seed), list[str]()
    compared = differing = hung = survived = 0
    with tempfile.TemporaryDirectory() as name:
        whole = {outcome.job.name: rows(Path(outcome.folder or "")) for outcome in bench(jobs, Path(name) / "whole")}
        size = written(Path(name) / "whole")
        while len(victims) < given.kills:
            runs = Path(name) / f"runs{compared}"
            folders = {job.name: runs / job.suite / job.name for job in jobs}
            while not all((folder / "summary.json").exists() for folder in folders.values()):
                stuck, left = disturbed(runs, given.samples, size, chance, victims, given.kills)
                hung, survived = hung + stuck, survived + left
            for job, folder in folders.items():
                kept = rows(folder)
                compared += max(len(kept), len(whole[job]))
                differing += sum(mine != theirs for mine, theirs in zip(kept, whole[job], strict=False))
                differing += abs(len(kept) - len(whole[job]))
            ends = f"{hung} benches hung, {survived} workers survived"
            print(f"{len(victims)} kills, {compared} rows compared, {differing} differ, {ends}", flush=True)
    counts = {kind: victims.count(kind) for kind in ("parent", "worker")}
    rows_found = {"rows_compared": compared, "rows_differing": differing}
    write(given.json, {"kills": counts, **rows_found, "hung": hung, "survivors": survived})
    sys.exit(1 if differing or hung or survived else 0)


if __name__ == "__main__":
    main()
