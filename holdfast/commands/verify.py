"""Verify results: run some of their runs again, and compare what was stored with what comes out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.benchmark import Job, Progress, load_suite, run
from holdfast.benchmark.finished import read_manifest
from holdfast.benchmark.foreign_code import admit_code, kept_files
from holdfast.machine.folders import commit_of, write_whole
from holdfast.options.own_code import OwnFile
from holdfast.report import RunRecord, read_run, read_runs

TOLERANCE = 0.5  # points of accuracy, where versions or machines differ, so that sums round differently
DIGITS = 4  # of accuracies in result files
INPUTS = ("stream", "weights", "preprocessing", "imports", "recipe_imports")  # without which nothing can be compared


@dataclass(frozen=True)
class Claim:
    """One stored run: how to repeat it, and the numbers that it should have."""

    job: Job
    manifest: Mapping[str, Any]
    numbers: Mapping[str, Any]


@dataclass(frozen=True)
class VerifiedRun:
    """How a claim compares with the run that was made again."""

    name: str
    promise: str  # "to the bit", or within the tolerance and why
    problem: str | None  # None: the claim holds
    accuracy: float  # stored, in %
    again: float


def claims_in(path: Path | str, suite: Path | str | None = None) -> list[Claim]:
    """Return the finished runs of a result file, or of a folder of runs.

    The jobs of a result file are in it, or in the `suite`, by default the YAML file of the same name beside it.
    """
    path = Path(path)
    if path.is_dir():
        finished = [run for run in read_runs(path) if run.finished]
        return [_claim_of(run) for run in finished if run.manifest.asked]
    try:
        content = json.loads(path.read_text())
        runs, parts = content["runs"], content["parts"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is no file of results; name a folder of runs, or a file that benchmarks/condense.py wrote"
        ) from error
    files = tuple(OwnFile(file["name"], file["text"]) for file in content.get("imports", []))
    claims = []
    known: dict[tuple[Any, ...], Job] | None = None
    for stored in runs:
        manifest = {
            key: parts.get(value, value) if isinstance(value, str) else value
            for key, value in stored["manifest"].items()
        }
        if "asked" in manifest:
            needed = {file["name"]: file["digest"] for file in manifest["asked"].get("imports", [])}
            job = Job.from_json(manifest["asked"], tuple(f for f in files if needed.get(f.name) == f.digest))
        else:
            known = _jobs_beside(path, suite) if known is None else known
            labels = manifest["recipe"]["label"], manifest["stream"]["label"], manifest["model"]["name"]
            key = (*labels, manifest["seed"])
            if key not in known:
                continue
            job = known[key]
        claims.append(Claim(job, manifest, _stored_numbers(stored)))
    return claims


def verify(
    path: Path | str,
    *,
    sample: int = 3,
    seed: int | None = None,
    suite: Path | str | None = None,
    allow_code: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> list[VerifiedRun]:
    """Run some of the runs again, drawn by the seed, and compare them with what is stored."""
    claims = claims_in(path, suite)
    if not claims:
        raise ValueError(
            f"no run of {path} says how it was made; put the suite beside it, as {Path(path).with_suffix('.yaml').name}"
        )
    drawn = np.random.default_rng(seed).permutation(len(claims))[:sample]
    chosen = [claims[index] for index in sorted(drawn)]
    admit_code([claim.job for claim in chosen], str(path), allow_code)
    with tempfile.TemporaryDirectory() as folder:
        return [_verified(claim, read_run(run(claim.job, Path(folder), progress=progress))) for claim in chosen]


def note_verified(record: Path, file: str, runs: int) -> None:
    """Note in a JSON file that so many runs of a result file were run again, and held; the leaderboard reads it."""
    known = json.loads(record.read_text()) if record.exists() else {}
    known[file] = {"date": date.today().isoformat(), "runs": runs, "commit": commit_of()}
    write_whole(record, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())


def _verified(claim: Claim, run: RunRecord) -> VerifiedRun:
    before, now = claim.manifest["protocol"], run.manifest.protocol
    unequal = [field for field in dict.fromkeys([*before, *now]) if before.get(field) != now.get(field)]
    made = None if run.manifest.made is None else run.manifest.made.model_dump()
    same_machine = (claim.manifest.get("made") or {}).get("machine") == (made or {}).get("machine")
    others = [*(field for field in unequal if field not in INPUTS), *([] if same_machine else ["machine"])]
    promise = "to the bit" if not others else f"within {TOLERANCE} points, other {', '.join(others)}"
    stored, again = claim.numbers, _numbers_of(run)
    accuracy, reached = (100 * numbers["correct"] / max(1, numbers["samples"]) for numbers in (stored, again))
    problem = None
    if lost := [field for field in unequal if field in INPUTS]:
        problem = f"{', '.join(lost)} cannot be reproduced here"
    elif stored["samples"] != again["samples"]:
        problem = f"{stored['samples']} samples are stored, {again['samples']} came out"
    elif others:
        if abs(accuracy - reached) > TOLERANCE:
            problem = f"{accuracy:.2f} % is stored, {reached:.2f} % came out"
    elif differing := [name for name in stored if stored[name] != again[name]]:
        problem = f"{', '.join(differing)} differ: {accuracy:.2f} % is stored, {reached:.2f} % came out"
    return VerifiedRun(claim.job.label, promise, problem, accuracy, reached)


def _claim_of(run: RunRecord) -> Claim:
    manifest = read_manifest(run.folder / "manifest.json")
    return Claim(Job.from_json(manifest["asked"], kept_files(run.folder)), manifest, _numbers_of(run))


def _numbers_of(run: RunRecord) -> dict[str, Any]:
    rows = run.rows
    return {
        "samples": int(rows.size.sum()),
        "correct": int(rows.correct.sum()),
        "resets": sum(reason is not None for reason in rows.recovered),
        "batch_accuracy": np.round(rows.accuracy, DIGITS).tolist(),
    }


def _stored_numbers(stored: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: stored["summary"][key] for key in ("samples", "correct")} | {"resets": stored["resets"]}
    return kept | ({"batch_accuracy": stored["batch_accuracy"]} if "batch_accuracy" in stored else {})


def _jobs_beside(path: Path, suite: Path | str | None) -> dict[tuple[Any, ...], Job]:
    file = Path(suite) if suite is not None else path.with_suffix(".yaml")
    jobs: Sequence[Job] = load_suite(file).jobs() if suite is not None or file.is_file() else []
    return {(job.recipe.label, job.stream.label, job.model.label, job.seed): job for job in jobs}
