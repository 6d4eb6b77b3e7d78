"""Replay: run a recorded stream again, with the same model, method and seed, through several recoveries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.benchmark import Job, Progress, load_suite, run, suite_names
from holdfast.benchmark.building import GIVEN_TO_RECIPES
from holdfast.benchmark.finished import read_manifest
from holdfast.benchmark.foreign_code import kept_files
from holdfast.benchmark.job import with_own_files
from holdfast.machine.devices import resolve_device
from holdfast.methods import METHODS
from holdfast.options.spec import Spec
from holdfast.recipes import recipe_of
from holdfast.recovery import RECOVERIES
from holdfast.registry import UnknownNameError, nearest, options_of
from holdfast.report import RunRecord, read_run
from holdfast.report.metrics import accuracy, last_accuracy, passes_per_sample

# Protocol fields that must be the same as when the run was recorded.
RECORDED_FIELDS = ("stream", "weights", "preprocessing", "seed", "batch_size", "samples")


@dataclass(frozen=True)
class RecordedReset:
    """One reset: the index of its batch, and the reason."""

    batch: int
    reason: str


@dataclass(frozen=True)
class Replayed:
    """The result of one recovery: accuracies in %, and forward plus backward passes per sample."""

    recovery: str
    accuracy: float
    last_tenth: float  # accuracy over the end of the stream
    passes: float
    resets: Sequence[RecordedReset]
    folder: str


def job_of(target: str | Path, *, job: str = "", scale: str | None = None, allow_code: bool = False) -> Job:
    """Return the job of a run's folder, or the first adapting job of a suite whose name begins with `job`.

    >>> job_of("demo", job="tent").recipe.name
    'tent'
    """
    if _names_a_suite(target):
        suite = load_suite(target, scale=scale, allow_code=allow_code)
        jobs = [one for one in suite.jobs() if one.recipe.name != "source"]
        chosen = next((one for one in jobs if one.name.startswith(job)), None)
        if chosen is None:
            raise ValueError(
                f"{target} has no adapting job that begins with {job!r}; {nearest(job, [one.name for one in jobs])}"
            )
        return chosen
    folder = Path(target)
    if not folder.is_dir():
        raise ValueError(f"{target} is neither the folder of a run nor a suite; {nearest(str(target), suite_names())}")
    if not (folder / "manifest.json").is_file():
        raise ValueError(f"{folder} has no manifest.json, so it is not a run; name the folder of a run")
    manifest = read_manifest(folder / "manifest.json")
    if "asked" not in manifest:
        raise ValueError(f"{folder} was recorded by a version that did not keep its job; run that job again")
    return Job.from_json(manifest["asked"], kept_files(folder))


def replayed_jobs(job: Job, recoveries: Sequence[Spec]) -> list[Job]:
    """Return the job with the source only, then with each recovery in place of its own.

    >>> job = job_of("demo", job="rdumb")
    >>> jobs = replayed_jobs(job, [Spec("never"), Spec("periodic", options={"every_batches": 5})])
    >>> [one.recipe.label for one in jobs]
    ['source', 'rdumb + never', 'rdumb + periodic(every_batches=5)']
    """
    name = job.recipe.name
    own = {"preset", *options_of(METHODS[recipe_of(name).method])}
    kept = {option: value for option, value in job.recipe.options.items() if option in own}
    recipes = [Spec("source")]
    for recovery in recoveries:
        for _, problem in recovery.problems(RECOVERIES, GIVEN_TO_RECIPES):
            raise UnknownNameError(problem)
        values = ", ".join(f"{option}={value}" for option, value in recovery.options.items())
        label = f"{name} + {recovery.name}" + (f"({values})" if values else "")
        options = {**kept, "recovery": recovery.name, "recovery_options": dict(recovery.options)}
        recipes.append(Spec(name, label, options))
    jobs = [replace(job, suite="replay", recipe=recipe, index=index) for index, recipe in enumerate(recipes)]
    return [with_own_files(one) for one in jobs]


def replay(
    target: str | Path,
    recoveries: Sequence[str | Mapping[str, Any] | Spec] = (),
    *,
    out: Path,
    job: str = "",
    scale: str | None = None,
    device: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Replayed]:
    """Run the stream of a recorded run, or of a suite's job, with the source, then with each recovery (default: all).

    Runs are kept in `out/replay` like those of any suite. A stream or network that differs from the recorded one is
    refused before anything adapts. `device` computes on another device than the recorded run did.
    """
    recorded = job_of(target, job=job, scale=scale)
    if device is not None:
        recorded = replace(recorded, device=resolve_device(device))
    jobs = replayed_jobs(recorded, [Spec.parse(recovery) for recovery in recoveries or RECOVERIES.names()])
    folders = []
    for one in jobs:
        folders.append(run(one, out, progress=progress))
        if not _names_a_suite(target):
            _check_as_recorded(Path(target), folders[-1])
    return [_replayed(one, read_run(folder)) for one, folder in zip(jobs, folders, strict=True)]


def _names_a_suite(target: str | Path) -> bool:
    return str(target) in suite_names() or str(target).endswith((".yaml", ".yml"))


def _check_as_recorded(recorded: Path, again: Path) -> None:
    before, now = (read_manifest(folder / "manifest.json")["protocol"] for folder in (recorded, again))
    differing = [field for field in RECORDED_FIELDS if before.get(field) != now.get(field)]
    if differing:
        raise ValueError(
            f"{', '.join(differing)} of {recorded.name} cannot be reproduced: {before.get(differing[0])} was recorded, "
            f"now it is {now.get(differing[0])}; restore the data and weights, or run that job again"
        )


def _replayed(job: Job, run: RunRecord) -> Replayed:
    rows = run.rows
    return Replayed(
        recovery=job.recipe.label,
        accuracy=100 * accuracy(rows),
        last_tenth=100 * last_accuracy(rows, 0.1),
        passes=passes_per_sample(rows),
        resets=[RecordedReset(batch, reason) for batch, reason in enumerate(rows.recovered) if reason is not None],
        folder=str(run.folder),
    )
