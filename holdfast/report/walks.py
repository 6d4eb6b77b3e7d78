"""The lengths of the transitions of calibrated walks (RDumb, Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from holdfast.display.cells import WordTable, printed
from holdfast.report.runs import RunRecord

PUBLISHED = {  # steps: least, most, mean and median
    "easy": "11 / 36 / 22.8 / 23",
    "medium": "21 / 41 / 33.9 / 34",
    "hard": "41 / 41 / 41 / 41",
}


def walk_table(runs: Sequence[RunRecord]) -> WordTable | None:
    """Return least, most, mean and median steps of the transitions of each difficulty; None without walks."""
    walks: dict[str, dict[str, list[int]]] = {}  # difficulty -> walk -> steps of its transitions
    imported = set()
    for run in runs:
        plan = run.manifest.stream.spec.get("plan", {})
        if plan.get("kind") != "walk":
            continue
        name = plan.get("difficulty") or f"{plan['target_percent']:g} %"
        if run.manifest.material.get("calibration", {}).get("imported"):
            imported.add(name)
        cells = [transition["cells"] for transition in plan["transitions"]]
        walks.setdefault(name, {})[str(cells)] = list(map(len, cells))
    lengths = {name: [steps for walk in different.values() for steps in walk] for name, different in walks.items()}
    rows = [
        [
            name,
            str(len(steps)),
            str(min(steps)),
            str(max(steps)),
            printed(fmean(steps)),
            f"{median(steps):g}",
            PUBLISHED.get(name, "–") if name in imported else "–",
        ]
        for name, steps in lengths.items()
    ]
    note = (
        "Steps of each transition between two corruptions, over all different walks. Published lengths (least / most / "
        "mean / median) stand beside walks that were made from imported accuracy matrices."
    )
    titles = ["difficulty", "transitions", "least", "most", "mean", "median", "published"]
    return WordTable("Lengths of transitions", titles, rows, note) if rows else None
