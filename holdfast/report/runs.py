"""Runs on disk: a manifest, and one row for each batch, read into columns."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.decode.row_tables import read_compact
from holdfast.display import facts
from holdfast.records import Estimate, Row
from holdfast.report.as_published import Publication, publication_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AGAIN = "delete its folder and run that job again"


class DamagedRunError(ValueError):
    """A run folder whose files cannot be read; the message names the file and what to do."""


def flattened(content: Mapping[str, Any], mark: str = ".") -> dict[str, Any]:
    """Return nested settings under names that are joined by a mark.

    >>> flattened({"name": "tent", "options": {"lr": 0.001}}, "/")
    {'name': 'tent', 'options/lr': 0.001}
    """
    flat: dict[str, Any] = {}
    for name, value in content.items():
        inner = flattened(value, mark) if isinstance(value, Mapping) else None
        flat |= {name: value} if inner is None else {f"{name}{mark}{key}": value for key, value in inner.items()}
    return flat


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True)


class StoredRecipe(_Stored):
    """The method, its options and its recovery."""

    name: str
    label: str
    method: str
    preset: str | None = None
    options: dict[str, Any] = {}
    recovery: str | None = None
    recovery_options: dict[str, Any] = {}
    estimators: dict[str, Any] = {}
    citation: str = ""
    summary: str = ""  # what it does, in one sentence
    code: str = ""  # Python files outside the package, each with its digest

    @field_validator("options", "recovery_options", "estimators")
    @classmethod
    def without_seed(cls, settings: Any) -> Any:
        """Drop the seed, so that runs of one recipe with different seeds share a line."""
        if not isinstance(settings, dict):
            return settings
        return {name: cls.without_seed(value) for name, value in settings.items() if name != "seed"}


class StoredModel(_Stored):
    """The network that was adapted."""

    name: str
    parameters: int
    normalisation: str


class StoredStream(_Stored):
    """The stream, with its domains in order of arrival."""

    name: str
    label: str
    domains: list[str]
    length: int | None  # in samples; None: endless
    spec: dict[str, Any] = {}


class StoredOrigin(_Stored):
    """When and where a run was started."""

    date: str  # year, month and day
    machine: str


class Manifest(_Stored):
    """Everything that the numbers of a run depend on."""

    schema_version: Literal[1] = Field(alias="schema")
    suite: str  # name of the suite
    job: str  # name of the job, and of its folder
    job_index: int = Field(0, alias="place")  # among the jobs of its suite
    recipe: StoredRecipe  # method, recovery, options and label
    model: StoredModel  # name, options and digest of the network
    stream: StoredStream  # name, options and data of the stream
    seed: int  # of stream and method
    protocol: dict[str, Any]  # everything else that makes runs comparable: batch size, order, length, device
    fingerprint: str  # of the samples and their order; equal streams have equal ones
    commit: str | None = None  # of the code; None: not run from a repository, or by an earlier version
    made: StoredOrigin | None = None  # when and where the run was started
    published: Publication | None = None  # None: nothing to compare with
    averages: dict[str, list[str]] = {}  # name -> labels of streams that the suite averages over
    material: dict[str, Any] = {}  # sizes and digests of data and weights, and who calibrated a walk
    asked: dict[str, Any] = {}  # the job; empty: run by an earlier version

    @model_validator(mode="before")
    @classmethod
    def compared(cls, content: Any) -> Any:
        """Compare the run with the published one, unless an earlier version has done so when it was run."""
        if not isinstance(content, dict) or content.get("published") is not None:
            return content
        try:
            return {**content, "published": publication_of(content)}
        except (KeyError, TypeError, AttributeError):  # the job of another version, which cannot be compared
            return content

    @field_validator("protocol")
    @classmethod
    def says_how(cls, protocol: dict[str, Any]) -> dict[str, Any]:
        """Refuse runs of 0.1, which did not say how the model went through the stream."""
        if "protocol" not in protocol:
            raise ValueError("it names no protocol")
        return protocol


@dataclass(frozen=True, eq=False)
class EstimateColumns:
    """The estimates of one estimator as columns: the fields of `Estimate`."""

    value: Floats  # (batches,)
    low: Floats
    high: Floats
    unknown: Sequence[str | None]
    gain: Floats
    alarm: Sequence[str | None]


@dataclass(frozen=True, eq=False)
class Rows:
    """The batches of a run as columns: the fields of `Row`; `nan` for a missing value."""

    position: Ints  # (batches,) of the first sample in the stream
    size: Ints  # (batches,) samples of each batch
    accuracy: Floats  # (batches,) a share between 0 and 1
    confidence: Floats  # mean over the batch of the largest probability
    entropy: Floats  # mean over the batch, in nats
    loss: Floats  # (batches,) of the update
    forwards: Floats  # network passes per sample
    backwards: Floats  # backward passes per sample
    estimating: Floats  # forwards of estimators; unknown for runs of earlier versions
    step_seconds: Floats  # (batches,) duration of each step
    expected: Floats  # accuracy of the source that the stream was calibrated to
    recovered: Sequence[str | None]  # why a step was a reset; None: it was not
    skipped: Sequence[str | None]  # why an update was left out; None: it was not
    estimates: Mapping[str, EstimateColumns]  # columns by the name of the estimator
    gauges: Mapping[str, Floats]  # a method's own numbers
    # A batch holds a few of the many domains of a stream, so (batch, domain) pairs are kept, not a grid.
    domains: Sequence[str]  # names of all domains of the stream
    correct: Ints  # (batches,) over all domains
    pair_batch: Ints  # (pairs,)
    pair_domain: Ints  # (pairs,) index into `domains`
    pair_correct: Ints  # (pairs,) predictions that are right
    pair_samples: Ints  # (pairs,) samples of this domain in this batch

    def __len__(self) -> int:
        return len(self.position)

    def __repr__(self) -> str:
        return f"Rows({len(self)} batches, {int(self.size.sum()):,} samples)"

    @property
    def ends(self) -> Ints:
        """Position after the last sample of each batch."""
        return self.position + self.size


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run: its manifest, its rows, and whether it is finished."""

    folder: Path  # that holds the run
    manifest: Manifest  # what the numbers depend on
    rows: Rows  # the batches as columns
    finished: bool  # whether the whole stream was run
    sets: Sequence[dict[str, Any]] = ()  # of an offline run: how each set was adapted to
    peak_mib: float | None = None  # of the whole process

    def __repr__(self) -> str:
        return f"RunRecord({', '.join(filter(None, self._facts().values()))})"

    def _facts(self) -> dict[str, str]:
        """Return which run it is and how it went, in words."""
        manifest, accuracy = self.manifest, self.rows.correct.sum() / max(1, self.samples)
        return {
            "recipe": manifest.recipe.label,
            "stream": manifest.stream.label,
            "model": manifest.model.name,
            "seed": f"seed {manifest.seed}",
            "accuracy": f"accuracy {100 * accuracy:.1f} %",
            "samples": self.reached,
            "state": "" if self.finished else "not finished",
        }

    def _repr_html_(self) -> str:
        return facts("RunRecord", {**self._facts(), "folder": str(self.folder)})

    @property
    def oracle_gap(self) -> float | None:
        """Gain of epochs chosen by labels over the last epochs, in points; None without an oracle."""
        if not self.sets or "last_correct" not in self.sets[0]:
            return None
        gained = sum(run_set["correct"] - run_set["last_correct"] for run_set in self.sets)
        return float(100 * gained / sum(run_set["samples"] for run_set in self.sets))

    @property
    def samples(self) -> int:
        """Number of samples that have a row."""
        return int(self.rows.size.sum())

    @property
    def reached(self) -> str:
        """How far the run got, in words."""
        length = self.manifest.stream.length
        return f"{self.samples:,} samples" if length is None else f"{self.samples:,} of {length:,} samples"


def read_runs(folder: Path | str) -> list[RunRecord]:
    """Return every run below a folder, or the run in the folder itself, in the order of their suites."""
    runs = [read_run(run_folder) for run_folder in run_folders(Path(folder))]
    runs.sort(key=lambda run: (run.manifest.suite, run.manifest.job_index))
    if not runs:
        raise FileNotFoundError(
            f"no runs in {folder}: found no manifest.json; run a suite first, or pass the folder it wrote to"
        )
    return runs


def run_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders that hold a manifest; folders inside them are not searched."""
    for path, inner, files in os.walk(folder):
        inner.sort()
        if "manifest.json" in files:
            inner.clear()
            yield Path(path)


def read_run(folder: Path) -> RunRecord:
    """Return the run in a folder."""
    path = folder / "manifest.json"
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the file"
        raise DamagedRunError(
            f"{path} is not a manifest of this version ({where}: {problem['msg']}); "
            f"{AGAIN}, or use the version that wrote it"
        ) from error
    rows = read_rows(folder / "rows.jsonl")
    summary = read_summary(folder / "summary.json")
    if summary is None:
        return RunRecord(folder, manifest, rows, finished=False)
    # Rows may be truncated, so a summary alone does not make a run finished.
    finished = len(rows) > 0 and int(rows.size.sum()) >= (summary.get("samples", manifest.stream.length) or 0)
    peak_mib = max(summary.get("peak_mib", {}).values(), default=None)
    return RunRecord(folder, manifest, rows, finished, summary.get("sets", ()), peak_mib)


def read_summary(path: Path) -> dict[str, Any] | None:
    """Return the summary of a finished run, None for an unfinished one."""
    if not path.exists():
        return None
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        summary = None
    if not isinstance(summary, dict):
        raise DamagedRunError(f"{path} is not a summary; delete it and run that job again")
    return summary


def read_rows(path: Path) -> Rows:
    """Return the rows of a run; an incomplete last line, from a killed run, is ignored."""
    if not path.exists() and path.with_suffix(".parquet").exists():  # the lines of a long run are compacted
        return columns([row_of(record) for record in read_compact(path.with_suffix(".parquet"))])
    lines = path.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n") if path.exists() else []
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise damaged_row(path, number, "is not JSON") from error
    try:
        rows = columns([row_of(record) for record in records])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedRunError(f"{path} is not a file of rows ({error!r}); {AGAIN}") from error
    repeated = np.flatnonzero(rows.position[1:] < rows.ends[:-1])
    if len(repeated):
        raise damaged_row(path, int(repeated[0]) + 2, "repeats samples of the line before it")
    return rows


def damaged_row(path: Path, number: int, problem: str) -> DamagedRunError:
    """Return the error for one line of a file of rows."""
    return DamagedRunError(f"line {number} of {path} {problem}; {AGAIN}")


def row_of(record: Mapping[str, Any]) -> Row:
    """Return a stored row; fields of other versions are left out."""
    estimates = {name: estimate_of(stored) for name, stored in record["estimates"].items()}
    known = {field.name: record[field.name] for field in fields(Row) if field.name in record}
    return Row(**{**known, "estimates": estimates})


def estimate_of(stored: Mapping[str, Any]) -> Estimate:
    """Return a stored estimate; JSON has null for one that is unknown.

    >>> estimate_of({"value": 0.5, "low": 0.4, "high": 0.6})
    Estimate(50.0 % [40.0, 60.0])
    """
    value = math.nan if stored["value"] is None else stored["value"]
    return Estimate(**{**stored, "value": value})


def columns(rows: Sequence[Row]) -> Rows:
    """Turn one record for each batch into one array for each field."""
    pairs = [
        (batch, domain, correct, samples)
        for batch, row in enumerate(rows)
        for domain, (correct, samples) in row.domains.items()
    ]
    domains = list(dict.fromkeys(domain for _, domain, _, _ in pairs))
    index = {domain: number for number, domain in enumerate(domains)}
    pair_batch, pair_correct = (np.fromiter((pair[part] for pair in pairs), np.int64) for part in (0, 2))
    absent = Estimate(math.nan)
    return Rows(
        **plain_columns(Row, rows),
        estimates={
            name: EstimateColumns(**plain_columns(Estimate, [row.estimates.get(name, absent) for row in rows]))
            for name in dict.fromkeys(name for row in rows for name in row.estimates)
        },
        gauges={
            name: floats(row.gauges.get(name) for row in rows)
            for name in dict.fromkeys(name for row in rows for name in row.gauges)
        },
        domains=domains,
        correct=np.bincount(pair_batch, pair_correct, len(rows)).astype(np.int64),
        pair_batch=pair_batch,
        pair_domain=np.fromiter((index[pair[1]] for pair in pairs), np.int64),
        pair_correct=pair_correct,
        pair_samples=np.fromiter((pair[3] for pair in pairs), np.int64),
    )


def plain_columns(kind: type[Row | Estimate], records: Sequence[Row | Estimate]) -> dict[str, Any]:
    """Return a column for each number and each text of a record, by the type of its field."""
    made: dict[str, Callable[[Iterable[Any]], Any]] = {
        "int": lambda values: np.fromiter(values, np.int64),
        "float": floats,
        "float | None": floats,
        "str | None": list,
    }
    return {
        field.name: made[field.type](getattr(record, field.name) for record in records)
        for field in fields(kind)
        if isinstance(field.type, str) and field.type in made
    }


def floats(values: Iterable[float | None]) -> Floats:
    """Return a column of numbers in which null is `nan`."""
    return np.fromiter((np.nan if value is None else value for value in values), np.float64)
