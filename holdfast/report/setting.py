"""What a table was measured on, in one line from the manifests of its runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.report.as_published import calibrated_on
from holdfast.report.runs import RunRecord

if TYPE_CHECKING:
    from holdfast.report.tables import Table

SMOKE = 300  # samples, below which a run shows that everything works and little else


def setting(table: Table) -> str:
    """Return data, corruptions, lengths, seeds, date, machine and commit, as far as the manifests have them."""
    run = table.runs[0]
    seeds = sorted({one.manifest.seed for one in table.runs})
    parts = [
        *_stream_in_words(run),
        f"{run.manifest.model.name} with {run.manifest.model.parameters:,} weights",
        f"batches of {table.protocol.get('batch_size')}",
        f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}",
        *_made(table),
    ]
    return " · ".join(parts)


def smoke(table: Table) -> str:
    """Return a warning for runs at the size of a smoke test, else nothing."""
    samples = min(int(run.rows.size.sum()) for run in table.runs)
    if samples >= SMOKE:
        return ""
    return (
        f"Smoke scale: {samples} samples a run, a standard error of up to {50 / math.sqrt(samples):.0f} points. "
        "This shows that everything runs, not which recipe is better."
    )


def _stream_in_words(run: RunRecord) -> Iterator[str]:
    spec, length = run.manifest.stream.spec, run.manifest.protocol.get("samples") or run.manifest.stream.length
    data = spec.get("data")
    if isinstance(data, Mapping) and "name" in data:
        name, _, split = str(data["name"]).partition("/")
        yield f"{name}, {split} split" if split else name
    if spec.get("family"):
        yield f"corruptions of family {spec['family']}"
    levels = sorted(_numbers_under("severities", spec))
    if levels:
        yield f"severity {levels[0]:g}" if len(levels) == 1 else f"severities {levels[0]:g} to {levels[-1]:g}"
    each = sorted(_numbers_under("samples_per_cell", spec))
    if len(each) == 1 and not (length and each[0] > length):  # unless the stream was cut before
        yield f"{each[0]:,.0f} samples in each domain"
    yield f"{length:,} samples" if length else "an endless stream"
    calibration = run.manifest.material.get("calibration")
    if calibration:
        imported = "walk from imported accuracy matrices"
        yield imported if calibration["imported"] else f"self-calibrated walk{calibrated_on(calibration)}"


def _numbers_under(key: str, content: Any) -> set[float]:
    """Return all numbers under a key, however deep it is."""
    if isinstance(content, Mapping):
        own = content.get(key, [])
        numbers = {
            float(value) for value in (own if isinstance(own, list) else [own]) if isinstance(value, int | float)
        }
        return numbers.union(*(_numbers_under(key, value) for value in content.values()))
    return set().union(*(_numbers_under(key, value) for value in content)) if isinstance(content, list) else set()


def _made(table: Table) -> Iterator[str]:
    made = [run.manifest.made for run in table.runs if run.manifest.made is not None]
    dates = sorted({one.date for one in made})
    if dates:
        yield dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        yield " / ".join(dict.fromkeys(one.machine for one in made))
    commits = dict.fromkeys(run.manifest.commit[:9] for run in table.runs if run.manifest.commit)
    if commits:
        yield f"commit {', '.join(commits)}"
