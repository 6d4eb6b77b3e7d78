"""Compare two runs, or two folders of runs, under equal protocols."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from holdfast.decode.plain_json import finite
from holdfast.display import fragment
from holdfast.display.cells import CellTable, WordTable
from holdfast.display.formats import to_markdown
from holdfast.registry import nearest
from holdfast.report.runs import Rows, RunRecord, flattened, read_runs
from holdfast.report.scores import Metric, percent

Ints = NDArray[np.int64]
TITLES = ("recipe", "stream", "model", "seed", "A", "B", "B − A", "95 % interval", "batches")


class UnequalProtocolsError(ValueError):
    """Two runs with different protocols; the message names the field."""


@dataclass(frozen=True)
class Pair:
    """Two runs over the same stream; accuracies are shares between 0 and 1, the difference is B − A."""

    recipe_a: str  # label of the recipe in A
    recipe_b: str  # label of the recipe in B
    stream: str  # label of the stream
    model: str  # label of the network
    seed: int  # of both runs
    fingerprint_a: str  # of the samples in A
    fingerprint_b: str  # of the samples in B; equal to A's if the streams are the same
    accuracy_a: float  # of the whole run in A
    accuracy_b: float  # of the whole run in B
    difference: float  # accuracy of B minus that of A
    low: float  # of the 95 % interval; nan below two batches
    high: float  # the upper end of the interval
    batches: int  # that both runs have
    unequal: Mapping[str, tuple[Any, Any]]  # protocol fields that were allowed to differ


@dataclass(frozen=True)
class Comparison:
    """The pairs of a comparison, and the runs without a partner."""

    a: str  # folder of the runs called A
    b: str  # folder of the runs called B
    pairs: Sequence[Pair]  # runs of the same stream, model and seed
    only_a: Sequence[str]  # runs of A without a partner in B
    only_b: Sequence[str]  # runs of B without a partner in A
    metric: Metric = "error"  # of the printed table

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values; a missing interval is None."""
        content: dict[str, Any] = finite(asdict(self))
        return content

    def cells(self) -> CellTable:
        """Return the table of cells."""
        note = (
            f"{self.metric.capitalize()} in %, {'lower' if self.metric == 'error' else 'higher'} is better; B − A in "
            "points with its 95 % interval over batches matched by position."
        )
        rows = [line_of(pair, self.metric) for pair in self.pairs]
        return WordTable(f"A: {self.a}, B: {self.b}", TITLES, rows, note).cells()

    def _repr_html_(self) -> str:
        return fragment(f"A: {self.a}, B: {self.b}", self)

    def to_markdown(self) -> str:
        """Return the comparison as Markdown."""
        unequal = {f"{field}: A {a!r}, B {b!r}" for pair in self.pairs for field, (a, b) in pair.unequal.items()}
        lines = [f"Unequal, as allowed: {difference}" for difference in sorted(unequal)]
        only = {"A": self.only_a, "B": self.only_b}
        lines += [f"Only in {side}: {'; '.join(runs)}" for side, runs in only.items() if runs]
        return "\n".join([to_markdown(self), *(f"{line}\n" for line in lines)])


def line_of(pair: Pair, metric: Metric = "error") -> list[str]:
    """Return the cells of one pair."""
    recipe = pair.recipe_a if pair.recipe_a == pair.recipe_b else f"{pair.recipe_a} → {pair.recipe_b}"
    sign = -100 if metric == "error" else 100
    low, high = sorted((sign * pair.low, sign * pair.high))
    interval = "–" if math.isnan(pair.low) else f"{low:+.2f} … {high:+.2f}"
    shares = [f"{percent(share, metric):.2f}" for share in (pair.accuracy_a, pair.accuracy_b)]
    names = [recipe, pair.stream, pair.model, str(pair.seed)]
    return [*names, *shares, f"{sign * pair.difference:+.2f}", interval, str(pair.batches)]


def compare(a: Path | str, b: Path | str, *, allow: Collection[str] = (), metric: Metric = "error") -> Comparison:
    """Compare two runs, or the runs of two folders paired by recipe, stream, model and seed.

    Args:
        a: folder of a run, or of runs.
        b: the same.
        allow: names of the protocol fields that may differ ("recovery", "order", "versions", …); all others have to be
            equal.
        metric: "error" or "accuracy".
    """
    runs_a, runs_b = read_runs(a), read_runs(b)
    check_allowed(allow, runs_a + runs_b)
    if len(runs_a) == len(runs_b) == 1:
        return Comparison(str(a), str(b), [compared(runs_a[0], runs_b[0], allow)], [], [], metric)
    keyed_a, keyed_b = keyed(runs_a), keyed(runs_b)
    pairs = [compared(run, keyed_b[key], allow) for key, run in keyed_a.items() if key in keyed_b]
    if not pairs:
        raise ValueError(
            f"no run of {a} has a partner in {b} with the same recipe label, stream label, model and seed; "
            "name two single run folders to compare runs of different recipes"
        )
    only_a = [key for key in keyed_a if key not in keyed_b]
    only_b = [key for key in keyed_b if key not in keyed_a]
    return Comparison(str(a), str(b), pairs, only_a, only_b, metric)


def check_allowed(allow: Collection[str], runs: Sequence[RunRecord]) -> None:
    """Raise for a field that no protocol has, so that a misspelt one is found at once."""
    fields = {field for run in runs for field in run.manifest.protocol}
    for field in allow:
        if field not in fields:
            raise ValueError(f"no protocol has a field {field!r} to allow; {nearest(field, fields)}")


def keyed(runs: Sequence[RunRecord]) -> dict[str, RunRecord]:
    """Return the runs by recipe, stream, model and seed."""
    by_key: dict[str, RunRecord] = {}
    for run in runs:
        manifest = run.manifest
        key = f"{manifest.recipe.label} on {manifest.stream.label}, {manifest.model.name}, seed {manifest.seed}"
        if key in by_key:
            raise ValueError(f"{by_key[key].folder} and {run.folder} are both {key}; move one of them elsewhere")
        by_key[key] = run
    return by_key


def compared(a: RunRecord, b: RunRecord, allow: Collection[str]) -> Pair:
    """Return one pair, or raise if its protocols differ."""
    unequal = unequal_fields(a, b)
    for field, values in unequal.items():
        if field not in allow:
            if field == "stream" and a.manifest.stream.spec != b.manifest.stream.spec:  # fields instead of two digests
                values = flattened(a.manifest.stream.spec), flattened(b.manifest.stream.spec)
            raise UnequalProtocolsError(
                f"{a.folder} and {b.folder} differ in {field}: {difference_in_words(*values)}; compare runs under one "
                f"protocol, or allow this difference with allow=[{field!r}] (--allow {field})"
            )
    for run in (a, b):
        if not run.finished:
            raise ValueError(f"the run in {run.folder} is not finished ({run.reached}); run its suite again")
    sizes, correct_a, correct_b = matched(a.rows, b.rows)
    difference, half_width = paired_difference(sizes, correct_a, correct_b)
    return Pair(
        recipe_a=a.manifest.recipe.label,
        recipe_b=b.manifest.recipe.label,
        stream=a.manifest.stream.label,
        model=a.manifest.model.name,
        seed=a.manifest.seed,
        fingerprint_a=a.manifest.fingerprint,
        fingerprint_b=b.manifest.fingerprint,
        accuracy_a=float(correct_a.sum() / sizes.sum()),
        accuracy_b=float(correct_b.sum() / sizes.sum()),
        difference=difference,
        low=difference - half_width,
        high=difference + half_width,
        batches=len(sizes),
        unequal=unequal,
    )


def unequal_fields(a: RunRecord, b: RunRecord) -> dict[str, tuple[Any, Any]]:
    """Return the protocol fields in which two runs differ, with both values."""
    of_a, of_b = a.manifest.protocol, b.manifest.protocol
    fields = dict.fromkeys([*of_a, *of_b])
    return {field: (of_a.get(field), of_b.get(field)) for field in fields if of_a.get(field) != of_b.get(field)}


def difference_in_words(a: Any, b: Any) -> str:
    """Return both values, or, for two mappings, the entries that differ.

    >>> difference_in_words({"torch": "2.4", "numpy": "2.0"}, {"torch": "2.5", "numpy": "2.0"})
    "torch is '2.4' in A and '2.5' in B"
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
        return ", ".join(f"{name} is {a.get(name)!r} in A and {b.get(name)!r} in B" for name in names)
    return f"{a!r} in A and {b!r} in B"


def matched(a: Rows, b: Rows) -> tuple[Ints, Ints, Ints]:
    """Return sizes and correct predictions of A and B between positions at which a batch ends in both."""
    return between(*(dict(zip(rows.ends.tolist(), np.cumsum(rows.correct).tolist(), strict=True)) for rows in (a, b)))


def between(a: Mapping[int, int], b: Mapping[int, int]) -> tuple[Ints, Ints, Ints]:
    """Return the same from the correct predictions so far at the end of each batch."""
    ends = sorted(a.keys() & b.keys())
    sums = (np.array(column, np.int64) for column in (ends, [a[end] for end in ends], [b[end] for end in ends]))
    sizes, of_a, of_b = (np.diff(column, prepend=0) for column in sums)
    return sizes, of_a, of_b


def paired_difference(sizes: Ints, correct_a: Ints, correct_b: Ints) -> tuple[float, float]:
    """Return the difference in accuracy and half the width of its 95 % interval.

    Neighbouring batches share a domain and a state of the model, so the variance is that of a correlated series
    (Newey & West, Econometrica 1987, with the lags of their 1994 rule); `nan` below two batches. Differences that
    last for tens of batches still leave it too narrow: several seeds say more.
    """
    gain = correct_b - correct_a
    difference = float(gain.sum() / sizes.sum())
    batches = len(sizes)
    if batches < 2:
        return difference, math.nan
    residual = gain - difference * sizes
    lags = min(math.floor(4 * (batches / 100) ** (2 / 9)), batches - 1)
    total = float(residual @ residual)
    for lag in range(1, lags + 1):
        total += 2 * (1 - lag / (lags + 1)) * float(residual[lag:] @ residual[:-lag])
    standard_error = math.sqrt(batches / (batches - 1) * max(total, 0.0)) / sizes.sum()
    return difference, float(stdtrit(batches - 1, 0.975) * standard_error)
