"""Compare our methods with recorded outputs of the official implementations, logit by logit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from holdfast.conformance import entropy, lame, long_streams, memories, statistics, teachers, unitta, without_batch_norm
from holdfast.conformance.case import Case, TraceComparison, compare
from holdfast.conformance.pack import PACKS, STREAMS
from holdfast.registry import UnknownNameError, nearest

__all__ = ["CASES", "STREAMS", "Case", "TraceComparison", "compare", "compare_all"]

CASES: tuple[Case, ...] = (
    *entropy.CASES,
    *lame.CASES,
    *long_streams.CASES,
    *memories.CASES,
    *statistics.CASES,
    *teachers.CASES,
    *unitta.CASES,
    *without_batch_norm.CASES,
)


def compare_all(golden: Path, only: Collection[str] | None = None, *, device: str = "cpu") -> Iterator[TraceComparison]:
    """Compare every case with a trace in the golden folder, on a device; `only` limits this to some recipes."""
    folders = sorted({pack.traces for pack in PACKS})
    if not any((golden / folder).is_dir() for folder in folders):
        raise FileNotFoundError(
            f"{golden} has no folder {' or '.join(folders)}; run this in a clone of the repository, or pass --golden "
            "FOLDER"
        )
    recipes = {case.recipe for case in CASES}
    for name in only or ():
        if name not in recipes:
            raise UnknownNameError(f"no trace of {name!r} is recorded; {nearest(name, recipes)}")
    return (
        compare(case, stream, golden, device=device)
        for case in CASES
        if (not only or case.recipe in only) and (golden / case.pack.traces / f"{case.trace}.json").exists()
        for stream in STREAMS
    )
