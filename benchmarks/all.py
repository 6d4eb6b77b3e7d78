"""Run every benchmark of speed or memory, one after the other: `python benchmarks/all.py [--quick] [NAME ...]`.

Each result is written to `results/NAME.json` (`--out FOLDER` for another folder), with medians and spread of three
processes and facts on the machine. An interrupted run resumes: results that were measured completely at this commit are
not measured again. The machine must be idle, or the figures are those of a busy one. `make bench` installs the packages
that some are compared with, and `make bench-check` compares a quick run with the committed results.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.machine.folders import commit_of

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
IDLE = 0.7  # the highest load average of an idle machine
SINGLE = ("source", "tent", "anchor", "blend", "guard", "unitta")
LONG = ("tent", "blend", "guard", "unitta")


@dataclass(frozen=True)
class Job:
    """A benchmark with its arguments, and its duration on two idle cores."""

    result: str
    command: str
    minutes: float
    quick_seconds: float
    needs: str | None = None  # a package


JOBS = (
    Job("corruptions", "corruptions.py", 2, 30),
    Job("corruptions-without-fast", "corruptions.py --without-fast", 2, 30),
    Job("audio-speed", "audio.py", 1, 15),
    Job("step-cost", "step_cost.py --best-format --rounds 5", 15, 250),
    Job("step-cost-batch-1", "step_cost.py --batch-size 1 --rounds 60 --recipe " + " --recipe ".join(SINGLE), 1, 10),
    Job("step-cost-input-guards", "step_cost.py --guards", 6, 80),
    Job("estimator-cost", "estimators.py", 8, 40),
    Job("serve", "serve.py", 8, 40),
    Job("soak-serve", "soak_serve.py --processes 1", 3, 30),
    Job("on-device", "on_device.py", 5, 90, "onnxruntime"),
    Job("peers", "peers.py", 2, 20),
    Job("pipeline", "pipeline.py", 4, 60),
    Job("executors", "executors.py", 3, 20),
    Job("executors-ray", "executors.py --executor ray", 3, 30, "ray"),
    Job("recommend", "recommend.py", 4, 60),
    Job("sampler", "sampler.py", 2, 15),
    Job("shards", "shards.py", 1, 10),
    Job("report-speed", "report.py", 2, 10),
    Job("soak", "soak.py --batches 10000 --recipe " + " --recipe ".join(LONG), 5, 15),
)


def complete(path: Path, *, quick: bool) -> bool:
    """Return whether a result was measured at this commit, and not only quickly."""
    content = json.loads(path.read_text()) if path.exists() else {}
    return content.get("machine", {}).get("commit") == commit_of() and content.get("quick") in (False, quick)


def duration(jobs: list[Job], *, quick: bool) -> str:
    """Return the estimated duration of jobs in words."""
    minutes = sum(job.quick_seconds / 60 if quick else job.minutes for job in jobs)
    return f"about {minutes:.0f} minutes"


def main() -> None:
    """Run what is not measured yet, and say how long the rest takes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(job.result for job in JOBS)}")
    parser.add_argument("--quick", action="store_true", help="one process and fewer rounds of each")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the results")
    parser.add_argument("--busy", action="store_true", help="measure even if the machine is busy")
    options = parser.parse_args()
    if unknown := {*options.names} - {job.result for job in JOBS}:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; --help lists all")
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [job for job in JOBS if not options.names or job.result in options.names]
    for job in [job for job in chosen if job.needs and not importlib.util.find_spec(job.needs)]:
        print(f"leaving out {job.result}: {job.needs} is not installed")
        chosen.remove(job)
    left = [job for job in chosen if not complete(options.out / f"{job.result}.json", quick=options.quick)]
    print(f"{len(chosen) - len(left)} of {len(chosen)} are measured at this commit; the others take", end=" ")
    print(duration(left, quick=options.quick), flush=True)
    if left and not (options.busy or options.quick) and os.getloadavg()[0] > IDLE:
        sys.exit(f"the load is {os.getloadavg()[0]:.1f}; wait until it is below {IDLE}, or pass --busy")
    failed = []
    while left:
        job, *left = left
        began = time.perf_counter()
        print(f"\n{job.result}: {job.command}", flush=True)
        script, *arguments = job.command.split()
        arguments += ["--json", str(options.out / f"{job.result}.json"), *(["--quick"] if options.quick else [])]
        ended = subprocess.run([sys.executable, "-W", "ignore", str(HERE / script), *arguments], check=False)
        failed += [job.result] if ended.returncode else []
        took = time.perf_counter() - began
        print(f"{job.result} took {took:.0f} s; {duration(left, quick=options.quick)} are left", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
