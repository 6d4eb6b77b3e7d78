"""Write docs/leaderboard.md from the committed results, for docs/pages.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
VERIFIED = RESULTS / "verified.json"  # file -> when, at which commit and how many of its runs were run again
PAGE = DOCS / "leaderboard.md"
MARK = "<!-- leaderboard -->"


def lines(path: Path, verified: dict[str, Any]) -> Iterator[list[str]]:
    """Yield one line for each suite, network, protocol and recipe of a file of results, best first."""
    content = json.loads(path.read_text())
    if not isinstance(content, dict) or "parts" not in content:
        return
    parts = content["parts"]
    groups: dict[tuple[str, str, str], dict[str, list[tuple[int, str, float]]]] = {}
    commits: dict[tuple[str, str, str], str] = {}
    for run in content["runs"]:
        manifest = run["manifest"]
        protocol = parts[manifest["protocol"]].get("protocol", "online").split(" ")[0]
        key = (manifest["suite"], parts[manifest["model"]]["name"], protocol)
        stream = parts[manifest["stream"]]["label"]
        error = 100 * (1 - run["summary"]["accuracy"])
        groups.setdefault(key, {}).setdefault(run["recipe"], []).append((manifest["seed"], stream, error))
        commits[key] = (manifest.get("commit") or "")[:8] or "–"
    checked = verified.get(path.name)
    seal = "no" if checked is None else f"{checked['runs']} runs, {checked['date']}"
    for key, recipes in groups.items():
        complete = max(len(runs) for runs in recipes.values())
        ranked = sorted(
            (fmean(error for _, _, error in runs), recipe) for recipe, runs in recipes.items() if len(runs) == complete
        )
        for error, recipe in ranked:
            seeds = sorted({seed for seed, _, _ in recipes[recipe]})
            means = [fmean(one for seed, _, one in recipes[recipe] if seed == wanted) for wanted in seeds]
            spread = f" ± {stdev(means):.1f}" if len(means) > 1 else ""
            streams = len({stream for _, stream, _ in recipes[recipe]})
            numbers = [f"{error:.1f}{spread}", str(streams), str(len(seeds))]
            yield [recipe, *key, *numbers, commits[key], seal, path.name]


def table() -> str:
    """Return all lines as Markdown."""
    verified = json.loads(VERIFIED.read_text()) if VERIFIED.exists() else {}
    titles = ["recipe", "suite", "network", "protocol", "error %", "streams", "seeds", "commit", "verified", "file"]
    rows = [line for path in sorted(RESULTS.glob("*.json")) for line in lines(path, verified)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [titles, ["---"] * len(titles), *rows])


def pages() -> dict[Path, str]:
    """Return the page with its table made anew."""
    before, _, _ = PAGE.read_text().partition(MARK)
    return {PAGE: f"{before}{MARK}\n\n{table()}\n"}
