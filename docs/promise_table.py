"""Write what README and docs say of the promise, and its tables, from results, for docs/pages.py."""

from __future__ import annotations

import json
import textwrap
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
HEAD = ("streams", "worst", "mean", "below the source")  # of the columns of `cells`
EXCEPTIONS = {  # (network, domain) -> how the text calls the streams on which the default is below the source
    ("resnet, digits", "inverted"): "inverted digits",
    ("amaut linear, FSDD", "pitch_shift"): "spoken digits at another pitch",
}
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
    return {key: sum(values_of) / len(values_of) for key, values_of in seen.items()}


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


def cells(over: Mapping[Any, float]) -> list[str]:
    """Return the number of streams, the worst and the mean gain, and the number of streams below the source."""
    if not over:
        return ["–"] * 4
    below = sum(gain < BELOW for gain in over.values())
    return [str(len(over)), f"{min(over.values()):+.1f}", f"{sum(over.values()) / len(over):+.1f}", str(below)]


def table(first: str, head: Iterable[str], lines: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a Markdown table whose cells are aligned right, but for the first."""
    names = list(head)
    text = [f"| {first} | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    return "\n".join([*text, *(f"| {name} | {' | '.join(line)} |" for name, line in lines)])


def called(recipe: str) -> str:
    """Return how the tables call a recipe."""
    name, _, how = recipe.partition(", ")
    return f"`{name}`, no source samples" if how == "no card" else f"`{name}`{how and ', ' + how}"


def summary() -> str:
    """Return worst and mean gains of each recipe over all networks."""
    kept = rows()
    return table("recipe", HEAD, [(called(recipe), cells(gains(recipe, kept))) for recipe in FIRST])


def by_kind() -> str:
    """Return worst and mean gains of each recipe for each kind of network."""
    kinds = {words: [row for row in rows() if row["kind"] == kind] for kind, words in KINDS.items()}
    lines = [
        (f"{words} ({len({row['subject'] for row in mine})})", [called(recipe), *cells(gains(recipe, mine))])
        for words, mine in kinds.items()
        for recipe in FIRST
        if gains(recipe, mine)
    ]
    return table("kind of network (how many)", ["recipe", *HEAD], lines)


def claim() -> str:
    """Return in a paragraph how often the default is above the source, and where it is not."""
    kept = rows()
    over, accuracy = gains("blend", kept), source(kept)
    better, below = sum(gain > -BELOW for gain in over.values()), {key for key, gain in over.items() if gain < BELOW}
    text = (
        f"With a few hundred unlabelled source samples, the default was more accurate than the network it adapts by "
        f"more than half a point on {better} of {len(over)} streams of {len({name for name, _ in over})} networks, "
        f"within half a point on {len(over) - better - len(below)}, and less accurate on {len(below)}"
    )
    parts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, stream in sorted(below):
        parts.setdefault((name, stream.rpartition(", ")[0]), []).append((name, stream))
    named = [
        f"{EXCEPTIONS.get(part, ': '.join(part))} (by up to {-min(over[key] for key in keys):.1f} points; the network "
        f"alone is right on {accuracy[keys[0]]:.0f} %)"
        for part, keys in sorted(parts.items(), key=lambda entry: min(over[key] for key in entry[1]))
    ]
    text += f": {' and '.join(named)}." if named else "."
    if any(accuracy[key] > 50 for key in below):
        return text
    return f"{text} Where the network alone is right on more than half of the samples, it never lost half a point."


def shown_by_network(number: int) -> str:
    """Return one of the numbers of `cells` for every recipe on each network; the networks of half A come first."""
    kept = rows()
    names = sorted({(row["half"], row["kind"], row["subject"]) for row in kept})
    lines = []
    for half, _, name in names:
        mine = [row for row in kept if row["subject"] == name]
        lines.append((name, [half, *(cells(gains(recipe, mine))[number] for recipe in recipes())]))
    return table("network", ["half", *(called(recipe) for recipe in recipes())], lines)


def by_domain(kind: str) -> str:
    """Return the default on every stream of a kind of network: the source in %, points over it."""
    mine = [row for row in rows() if row["kind"] == kind]
    over, accuracy = gains("blend", mine), source(mine)
    orders = ("i.i.d.", "correlated", "sorted", "batches of 1", "batches of 4", "batches of 16")
    lines = []
    for name, domain in dict.fromkeys((row["subject"], row["stream"].rpartition(", ")[0]) for row in mine):
        keys = [(name, f"{domain}, {order}") for order in orders]
        points = [f"{over[key]:+.1f}" if key in over else "–" for key in keys]
        lines.append((f"{name}: {domain}", [f"{accuracy[keys[0]]:.1f}", *points]))
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
        errors = [
            f"{sum(row['calibration'][name] for row in part) / len(part):.1f}"
            for part in parts
            for name in ("source", "blend")
        ]
        lines.append((words, errors))
    head = ("own domain: source", "`blend`", "shifted: source", "`blend`")
    return table("kind of network", head, lines)


def hostile() -> str:
    """Return worst and mean gains on hostile streams, by network, half and method."""
    kept = json.loads(HOSTILE.read_text())["measured"]["rows"]
    lines = []
    for subject, half in dict.fromkeys((row["subject"], row["half"]) for row in kept):
        mine = [row for row in kept if (row["subject"], row["half"]) == (subject, half)]
        for method in kept[0]["gains"]:
            over = {row["stream"]: row["gains"][method] for row in mine}
            lines.append((f"{subject}, {half}", [called(method), *cells(over)]))
    return table("network, half", ["recipe", *HEAD], lines)


def hostile_claim() -> str:
    """Return how often the default is below the source on hostile streams."""
    over = [row["gains"]["blend"] for row in json.loads(HOSTILE.read_text())["measured"]["rows"]]
    below = sum(gain < BELOW for gain in over)
    return (
        f"On {len(over)} streams that were made to break it ([hostile check](results/promise.md#a-hostile-check)) the "
        f"default is more than half a point below the source on {below}, by {-min(over):.1f} points at most."
    )


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
    readme, start = DOCS.parent / "README.md", DOCS / "index.md"
    texts = {path: path.read_text() for path in (page, details, readme, start)}
    tables = [(path, "claim", wrapped(claim())) for path in (readme, start, page, details)]
    tables += [(page, "promise", summary()), (page, "hostile claim", wrapped(hostile_claim()))]
    tables += [
        (details, "kinds", by_kind()),
        (details, "worst", shown_by_network(1)),
        (details, "mean", shown_by_network(2)),
    ]
    tables += [(details, "calibration", calibration()), (details, "hostile", hostile()), (details, "lost", lost())]
    tables += [(details, kind, by_domain(kind)) for kind in KINDS]
    for path, mark, content in tables:
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        if begin not in texts[path]:
            raise ValueError(f"{path.name} has no mark {begin}; add it, and {end} where its text ends")
        before, _, rest = texts[path].partition(begin)
        _, _, after = rest.partition(end)
        texts[path] = f"{before}{begin}\n\n{content}\n\n{end}{after}"
    return texts


def wrapped(text: str) -> str:
    """Return a paragraph in lines of at most 120 characters."""
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False))
