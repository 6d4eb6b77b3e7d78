"""Measure what `holdfast recommend digits_resnet digits` costs, in CPU seconds and in passes of its stream.

`python benchmarks/recommend.py [OUT.json]`. CPU time of one thread, so that other work on the machine counts little.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

CODE = """
import json, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from holdfast.benchmark import bench
from holdfast.commands.recommend import plan_trial, run_trial, scenario_of
out = Path(sys.argv[1])
trial = plan_trial("digits_resnet", "digits", scenario_of(""))
expected = trial.seconds()
begun = time.process_time()
ranking = run_trial(trial, out / "race", max_time=float("inf"), worth=1.0, tell=None)
race = time.process_time() - begun
source = [job for job in trial.jobs if job.recipe.label == "source" and job.seed == 0]
begun = time.process_time()
bench(source, out / "pass")
print(json.dumps({
    "race_cpu_seconds": race,
    "pass_cpu_seconds": time.process_time() - begun,
    "process_cpu_seconds": time.process_time(),
    "estimated_seconds": expected,
    "candidates": len(trial.candidates),
    "conclusion": ranking.conclusion,
}))
"""
ROUNDS = 3


def measured() -> dict[str, float]:
    """Run a recommendation in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", CODE, folder], check=True, capture_output=True, text=True)
    content: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return content


def main() -> None:
    """Measure several times, and print or write the median by CPU time."""
    rounds = sorted((measured() for _ in range(ROUNDS)), key=lambda one: one["process_cpu_seconds"])
    median = rounds[len(rounds) // 2]
    content = {
        "machine": platform.processor() or platform.machine(),
        "rounds": [round(one["process_cpu_seconds"], 1) for one in rounds],
        **median,
        "passes_of_the_stream": median["race_cpu_seconds"] / median["pass_cpu_seconds"],
    }
    text = json.dumps({key: round(value, 2) if isinstance(value, float) else value for key, value in content.items()})
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
