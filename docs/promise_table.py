"""Write the tables of docs/promise.md and docs/results/promise.md from results, for docs/pages.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
NETWORKS, HOSTILE = RESULTS / "promise-networks.json", RESULTS / "hostile.json"
KINDS = {
    "transfer": "pretrained, with a new head",
    "without BatchNorm": "without BatchNorm",
    "scratch": "BatchNorm, trained from scratch",
}
FIRST = ("batch_norm", "tent", "neo", "anchor", "blend", "guard(tent)", "blend, no card")  # of the first table
BELOW = -0.5

Streams = dict[tuple[str, str], float]  # (subject, stream) -> the mean over seeds


def rows() -> list[dict[str, Any]]:
    """Return the measured rows."""
    measured: list[dict[str, Any]] = json.loads(NETWORKS.read_text())["measured"]["rows"]
    return measured


def means(values: Iterable[tuple[tuple[str, str], float]]) -> Streams:
    """Return the mean of each stream over its seeds."""
    seen: dict[tuple[str, str], list[float]] = {}
    for key, value in values:
        seen.setdefault(key, []).append(value)
    return {key: sum(gains) / len(gains) for key, gains in seen.items()}


def gains(recipe: str, chosen: Iterable[Mapping[str, Any]]) -> Streams:
    """Return the points over the source of a recipe, stream by stream."""
    measured = (row for row in chosen if recipe in row["gains"])
    return means(((row["subject"], row["stream"]), row["gains"][recipe]) for row in measured)


def source(chosen: Iterable[Mapping[str, Any]]) -> Streams:
    """Return the accuracy of the source in %, stream by stream."""
    return means(((row["subject"], row["stream"]), row["source"]) for row in chosen)


def recipes() -> list[str]:
    """Return the recipes in the order in which they were measured."""
    return list(dict.fromkeys(recipe for row in rows() for recipe in row["gains"]))


def cell(over: Mapping[Any, float]) -> str:
    """Return worst and mean gain and the number of streams below the source."""
    if not over:
        return "–"
    below = sum(gain < BELOW for gain in over.values())
    return f"{min(over.values()):+.1f} / {sum(over.values()) / len(over):+.1f} / {below}"


def table(first: str, head: Iterable[str], lines: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a Markdown table whose cells are aligned right, but for the first."""
    names = list(head)
    text = [f"| {first} | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    return "\n".join([*text, *(f"| {name} | {' | '.join(cells)} |" for name, cells in lines)])


def summary() -> str:
    """Return worst and mean gains for each kind of network."""
    kept = rows()
    head = [*(f"`{recipe}`" for recipe in FIRST[:-1]), "`blend`, no source samples"]
    lines = []
    for kind, words in KINDS.items():
        mine = [row for row in kept if row["kind"] == kind]
        networks = len({row["subject"] for row in mine})
        cells = [str(networks), str(len(gains("blend", mine))), *(cell(gains(recipe, mine)) for recipe in FIRST)]
        lines.append((words, cells))
    return table("kind of network", ["networks", "streams", *head], lines)


def exceptions() -> str:
    """Return in a paragraph where the default is below the source."""
    kept = rows()
    over, accuracy = gains("blend", kept), source(kept)
    below = {key: gain for key, gain in over.items() if gain < BELOW}
    fair = {key: gain for key, gain in below.items() if accuracy[key] > 50}
    held = f"{len(over) - len(below)} of {len(over)} streams"
    text = f"The default is at or above the source, or within half a point of it, on {held}."
    if fair:
        listed = ", ".join(
            f"{name}: {stream} ({gain:+.1f})" for (name, stream), gain in sorted(fair.items(), key=_value)
        )
        text += (
            f" It is further below where the source is right on more than half of the samples on {len(fair)}: {listed}."
        )
    poor = {key: gain for key, gain in below.items() if key not in fair}
    if poor:
        worst = min(poor.values())
        text += f" On {len(poor)} it is below a source that is right on less than half, by {-worst:.1f} points at most."
    return text


def _value(entry: tuple[Any, float]) -> float:
    return entry[1]


def subjects() -> str:
    """Return worst and mean gains of every recipe on each network; the networks of half A come first."""
    kept = rows()
    names = sorted({(row["half"], row["kind"], row["subject"]) for row in kept})
    lines = []
    for half, _, name in names:
        mine = [row for row in kept if row["subject"] == name]
        cells = [half, str(len(gains("blend", mine))), *(cell(gains(recipe, mine)) for recipe in recipes())]
        lines.append((name, cells))
    return table("network", ["half", "streams", *(f"`{recipe}`" for recipe in recipes())], lines)


def by_domain(kind: str) -> str:
    """Return the default on every stream of a kind of network: the source in %, points over it."""
    mine = [row for row in rows() if row["kind"] == kind]
    over, accuracy = gains("blend", mine), source(mine)
    orders = ("i.i.d.", "correlated", "sorted", "batches of 1", "batches of 4", "batches of 16")
    lines = []
    for name, domain in dict.fromkeys((row["subject"], row["stream"].rpartition(", ")[0]) for row in mine):
        keys = [(name, f"{domain}, {order}") for order in orders]
        cells = [f"{over[key]:+.1f}" if key in over else "–" for key in keys]
        lines.append((f"{name}: {domain}", [f"{accuracy[keys[0]]:.1f}", *cells]))
    return table("network: domain", ["source %", *orders], lines)


def calibration() -> str:
    """Return the mean expected calibration error of source and default for each kind of network."""
    lines = []
    for kind, words in KINDS.items():
        mine = [row for row in rows() if row["kind"] == kind and "blend" in row["calibration"]]
        clean = {row["subject"]: row["stream"].rpartition(", ")[0] for row in reversed(mine)}
        parts = (
            [row for row in mine if (row["stream"].startswith(clean[row["subject"]])) == own] for own in (True, False)
        )
        cells = [
            f"{sum(row['calibration'][name] for row in part) / len(part):.1f}"
            for part in parts
            for name in ("source", "blend")
        ]
        lines.append((words, cells))
    head = ("own domain: source", "`blend`", "shifted: source", "`blend`")
    return table("kind of network", head, lines)


def hostile() -> str:
    """Return worst and mean gains on hostile streams, by network and half."""
    kept = json.loads(HOSTILE.read_text())["measured"]["rows"]
    methods = list(kept[0]["gains"])
    lines = []
    for subject, half in dict.fromkeys((row["subject"], row["half"]) for row in kept):
        mine = [row for row in kept if (row["subject"], row["half"]) == (subject, half)]
        cells = (cell({row["stream"]: row["gains"][method] for row in mine}) for method in methods)
        lines.append((f"{subject}, {half}", [str(len(mine)), *cells]))
    return table("network, half", ["streams", *(f"`{method}`" for method in methods)], lines)


def lost() -> str:
    """Return the hostile streams on which the default is more than one point below the source."""
    kept = json.loads(HOSTILE.read_text())["measured"]["rows"]
    methods = list(kept[0]["gains"])
    lines = [
        (
            f"{row['subject']}, {row['half']}: {row['stream']}",
            [f"{row['source']:.1f}", *(f"{row['gains'][method]:+.1f}" for method in methods)],
        )
        for row in sorted(kept, key=lambda row: row["gains"]["blend"])
        if row["gains"]["blend"] < -1
    ]
    return table("stream", ["source %", *(f"`{method}`" for method in methods)], lines)


def pages() -> dict[Path, str]:
    """Return the pages, each with its tables between their marks."""
    page, details = DOCS / "promise.md", DOCS / "results" / "promise.md"
    texts = {page: page.read_text(), details: details.read_text()}
    tables = [(page, "promise", summary()), (page, "exceptions", exceptions())]
    tables += [(details, "subjects", subjects()), (details, "calibration", calibration())]
    tables += [(details, "hostile", hostile()), (details, "lost", lost())]
    tables += [(details, kind, by_domain(kind)) for kind in KINDS]
    for path, mark, content in tables:
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = texts[path].partition(begin)
        _, _, after = rest.partition(end)
        texts[path] = f"{before}{begin}\n\n{content}\n\n{end}{after}"
    return texts
