"""Write the sections of docs/results that repeat a table or figure of a paper, for docs/pages.py.

A section is written between its marks from one result, heading and sentences included; without that result it is empty.
"""

from __future__ import annotations

import runpy
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from holdfast.report.as_published import published_rows
from holdfast.report.speed import moving_accuracy
from holdfast.report.walks import PUBLISHED as PUBLISHED_LENGTHS

DOCS = Path(__file__).parent
MEASURED: dict[str, Any] = runpy.run_path(str(DOCS / "measured_tables.py"))
RESULTS: Path = MEASURED["RESULTS"]
WRN_28_10, RESNET_50 = "36479194", "25557032"  # parameters, which name a published table
METHODS = ("tent", "eata", "sar", "cotta", "rotta", "sotta")  # of AETTA's tables
SHOWN = (1, 5, 10, 20, 30, 40, 50)  # batches since the start
Run = dict[str, Any]
Lines = list[str]


def runs(name: str) -> list[Run]:
    """Return the runs of a result."""
    listed: list[Run] = MEASURED["runs"](name)
    return listed


def text(words: str) -> Lines:
    """Return a paragraph and an empty line."""
    return [*textwrap.wrap(" ".join(words.split()), 120, break_long_words=False, break_on_hyphens=False), ""]


def head(titles: Sequence[str]) -> Lines:
    """Return the first two lines of a table, whose columns but the first hold numbers."""
    return [f"| {' | '.join(titles)} |", "| --- |" + " ---: |" * (len(titles) - 1)]


def row(*cells: str) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float]) -> str:
    """Return the mean and, over several seeds, the standard deviation."""
    shown: str = MEASURED["_spread"](list(values))
    return shown


def errors(name: str) -> dict[str, dict[str, list[float]]]:
    """Return the errors in % of all seeds, by recipe and stream."""
    table: dict[str, dict[str, list[float]]] = {}
    for run in runs(name):
        by_stream = table.setdefault(run["recipe"], {})
        by_stream.setdefault(run["stream"], []).append(100 - 100 * run["summary"]["accuracy"])
    return table


def published(suite: str, parameters: str, column: str = "") -> dict[tuple[str, str], float]:
    """Return the published accuracies of a suite on a network in %, by recipe and column."""
    return {
        (line["recipe"], line["column"]): float(line["value"])
        for line in published_rows()
        if (line["suite"], line["parameters"], line["measure"]) == (suite, parameters, "accuracy")
        and column in ("", line["column"])
    }


def unitta(name: str, heading: str, words: str) -> Lines:
    """Return errors by recipe in each setting, beside the mean that is published for a WRN-28-10."""
    table, known = errors(name), published("unitta", WRN_28_10)
    settings = list(table["source"])
    mean = {recipe: fmean(fmean(own[setting]) for setting in settings) for recipe, own in table.items()}
    best = min(mean, key=lambda recipe: mean[recipe])
    worse = [f"`{recipe}`" for recipe in mean if mean[recipe] > mean["source"]]
    several = len(settings) > 1
    meant = "the mean of these settings" if several else "this setting"
    lines = [f"## {heading}", ""]
    lines += text(
        f"""
        {words} (`results/{name}`). `{best}` has the least error, {mean[best]:.1f} %, the source
        {mean["source"]:.1f} %; {", ".join(worse) or "nothing"} {"are" if len(worse) > 1 else "is"} worse than the
        source. Error in %, ± standard deviation over the seeds; *paper* is {meant} in the paper, with a
        larger network.
        """
    )
    lines += head(["recipe", *settings, *(["mean"] if several else []), "paper"])
    for recipe, own in table.items():
        theirs = [100 - known[recipe, setting] for setting in settings if (recipe, setting) in known]
        cells = [spread(own[setting]) for setting in settings]
        cells += [f"{mean[recipe]:.1f}"] if several else []
        lines.append(row(f"`{recipe}`", *cells, f"{fmean(theirs):.1f}" if len(theirs) == len(settings) else "–"))
    return lines


def official() -> Lines:
    """Return UniTTA's settings under the official rules."""
    samples = runs("unitta-official-cifar10")[0]["summary"]["samples"]
    words = (
        f"Four of the paper's main settings under its own rules, the first {samples:,} samples of each, three seeds, "
        "methods of the paper with and without their filters"
    )
    return unitta("unitta-official-cifar10", "Official rules", words)


def whole() -> Lines:
    """Return a setting of UniTTA at its whole length."""
    lengths = [run["summary"]["samples"] for run in runs("unitta-whole-cifar10")]
    words = (
        f"One setting under the official rules to its end, {min(lengths):,} to {max(lengths):,} samples for three "
        "seeds, for methods that train nothing"
    )
    return unitta("unitta-whole-cifar10", "At full length", words)


def accuracy_of(name: str) -> dict[str, list[float]]:
    """Return the accuracies in % of all seeds, by recipe."""
    table: dict[str, list[float]] = {}
    for run in runs(name):
        table.setdefault(run["recipe"], []).append(100 * run["summary"]["accuracy"])
    return table


def thresholds() -> Lines:
    """Return RDumb's Table 4: accuracy by entropy threshold."""
    table, known = accuracy_of("ccc-thresholds-cifar10"), published("ccc-studies", RESNET_50, "average")
    margins = [recipe.removeprefix("eata-H0-") for recipe in table if recipe.startswith("eata-H0-")]
    best = {
        method: max(margins, key=lambda margin: fmean(table[f"{method}-H0-{margin}"])) for method in ("eata", "rdumb")
    }
    ahead = sum(fmean(table[f"rdumb-H0-{margin}"]) > fmean(table[f"eata-H0-{margin}"]) for margin in margins)
    lines = ["## The entropy threshold (Table 4)", ""]
    lines += text(
        f"""
        CCC-Medium, 100 batches, three seeds (`results/ccc-thresholds-cifar10`), the source has
        {spread(table["source"])} %. EATA is best at {best["eata"]} ln K, RDumb at {best["rdumb"]} ln K, and RDumb
        is ahead of EATA at {ahead} of {len(margins)} thresholds. Accuracy in %, ± standard deviation over the
        seeds; *paper* is the average over CCC there.
        """
    )
    lines += head(["threshold", "`eata`", "`rdumb`", "`eata`, paper", "`rdumb`, paper"])
    for margin in margins:
        cells = [spread(table[f"{method}-H0-{margin}"]) for method in ("eata", "rdumb")]
        names = (method if margin == "0.4" else f"{method}-H0-{margin}" for method in ("eata", "rdumb"))  # the default
        lines.append(row(f"{margin} ln K", *cells, *(f"{known[name, 'average']:g}" for name in names)))
    return lines


def holdout() -> Lines:
    """Return RDumb's Tables 3 and 6: reset interval and weight of EATA's regularisation."""
    table = accuracy_of("holdout-cifar10")
    mean = {recipe: fmean(values) for recipe, values in table.items()}
    intervals = [recipe for recipe in table if recipe.startswith("rdumb-")]
    weights = [recipe for recipe in table if recipe.startswith("eata-")]
    best = [max(kind, key=lambda recipe: mean[recipe]).partition("-")[2] for kind in (intervals, weights)]
    lines = ["## Reset interval and regularisation (Tables 3 and 6)", ""]
    lines += text(
        f"""
        The four held-out corruptions at severity 5, repeated over 100 batches in an order that each of three seeds
        draws (`results/holdout-cifar10`). RDumb is best with a reset every {best[0]} batches, EATA with a weight of
        {best[1]}; ETA, which is never reset, has {mean["eta"]:.1f} %. In the paper, on 750 000 images, these are
        1000 steps and 100. Accuracy in %, ± standard deviation over the seeds:
        """
    )
    lines += head(["recipe", "accuracy %"])
    names = {
        **{recipe: f"`rdumb`, reset every {recipe[6:]} batches" for recipe in intervals},
        **{recipe: f"`eata`, weight {recipe[5:]}" for recipe in weights},
    }
    return lines + [row(names.get(recipe, f"`{recipe}`"), spread(values)) for recipe, values in table.items()]


def speed() -> Lines:
    """Return RDumb's Figure 5: the normalised course of accuracy since the start, and the batches to its maximum."""
    groups: dict[str, list[Any]] = {}
    for run in runs("eta-speed-cifar10"):
        domains = np.split(np.array(run["batch_accuracy"]), len(run["domains"]))  # equally long
        groups.setdefault(run["recipe"], []).extend(map(moving_accuracy, domains))
    steps = {recipe: [int(course.argmax()) + 1 for course in own] for recipe, own in groups.items()}
    length = min(len(course) for own in groups.values() for course in own)
    shown = [batch for batch in SHOWN if batch <= length]
    lines = ["## How fast ETA adapts (Figure 5)", ""]
    lines += text(
        f"""
        From the source on each of four held-out corruptions at severities 1 to 5, one seed
        (`results/eta-speed-cifar10`). ETA is at its best after {fmean(steps["eta"]):.0f} batches of 64 on average,
        at the latest after {max(steps["eta"])} of {length}; in the paper after about 200, at a twentieth of the
        learning rate. Accuracy in % of its maximum along a domain, a moving mean over five batches, averaged over
        corruptions and severities:
        """
    )
    lines += head(["recipe", *(f"batch {batch}" for batch in shown), "maximum %", "batches to it", "latest"])
    for recipe, own in groups.items():
        curve = np.mean([course / course.max() for course in own], axis=0)
        cells = [f"{100 * curve[batch - 1]:.1f}" for batch in shown]
        cells += [f"{100 * fmean(course.max() for course in own):.1f}", f"{fmean(steps[recipe]):.1f}"]
        lines.append(row(f"`{recipe}`", *cells, str(max(steps[recipe]))))
    return lines


def lengths() -> Lines:
    """Return RDumb's Table 5: lengths of the transitions of the walks."""
    walks: dict[str, dict[str, list[int]]] = {}
    for run in runs("ccc-rivals-cifar10"):
        plan = run["plan"]
        steps = [len(transition["cells"]) for transition in plan["transitions"]]
        walks.setdefault(plan["difficulty"], {})[str(plan["transitions"])] = steps
    lines = ["## Lengths of transitions (Table 5)", ""]
    lines += text(
        """
        Steps from one corruption to the next on the walks above, which were calibrated for this network. Harder
        walks are longer, as in the paper (least / most / mean / median), whose network and pictures are others.
        """
    )
    lines += head(["difficulty", "transitions", "least", "most", "mean", "median", "paper"])
    for difficulty, theirs in PUBLISHED_LENGTHS.items():
        steps = [step for walk in walks[difficulty].values() for step in walk]
        cells = [f"{len(steps)}", f"{min(steps)}", f"{max(steps)}", f"{fmean(steps):.1f}", f"{median(steps):g}"]
        lines.append(row(difficulty, *cells, theirs))
    return lines


def fully() -> Lines:
    """Return AETTA's Table 1: errors of estimators from the source."""
    mean = estimator_errors("aetta-fully-cifar10")
    others = fmean(mean[name] for name in ("SrcValid", "softmax", "GDE", "AdvPerturb"))
    lines = ["## AETTA as published, each corruption from the source (Table 1)", ""]
    lines += text(
        f"""
        Eight corruptions of severity 5, each from the source, 256 samples, three seeds
        (`results/aetta-fully-cifar10`). AETTA as published is off by {mean["AETTA"]:.1f} points, the four others by
        {others:.1f} on average, AETTA with the dropout rate that fits this network by {mean["fitted"]:.1f}, ours by
        {mean["ours"]:.1f}. In the paper AETTA is off by 5.05 points on CIFAR-10-C and the four by 16.1.
        """
    )
    return lines + MEASURED["estimates"]("aetta-fully-cifar10", MEASURED["ESTIMATORS"])


def estimator_errors(name: str) -> dict[str, float]:
    """Return the mean error of each estimator over the methods that adapt, in points."""
    adapted = [run for run in runs(name) if run["recipe"] != "source"]
    return {
        title: fmean(MEASURED["_off"](run, estimator) for run in adapted)
        for title, estimator in MEASURED["ESTIMATORS"].items()
    }


def options() -> Lines:
    """Return AETTA's Figure 5: number of masks and α."""
    lines = ["## Masks and α (Figure 5)", ""]
    lines += text(
        """
        AETTA at the fitted dropout rate on fifteen corruptions of severity 5, 128 samples each, three seeds
        (`results/aetta-options-cifar10`). TENT has ten times its rate and collapses, which is what α is for. The
        published options are 10 masks, which is the column α = 3, and α = 3. Mean absolute error in points:
        """
    )
    return lines + MEASURED["estimates"]("aetta-options-cifar10", MEASURED["OPTIONS"])


RECOVERIES = {  # by the names of the paper
    "Episodic": "episodic",
    "MRS": "loss_collapse",
    "Stochastic": "stochastic",
    "FisherStochastic": "fisher",
    "DistShift": "oracle",
    "AETTA": "estimate_drop",
    "ours": "ours",
}


def recoveries() -> Lines:
    """Return AETTA's Table 3: gains of recoveries, at published rates and at rates that collapse."""
    lines = ["## Gains of recoveries on six methods (Table 3)", ""]
    lines += text(
        """
        CIFAR-10 with fifteen corruptions of severity 5, 128 samples each, three seeds
        (`results/aetta-recovery-cifar10`): once at published learning rates, twice over at rates at which methods
        collapse. *AETTA* follows its own estimate and returns what the official code does; *ours* follows the
        estimator `anchored` and returns everything; *DistShift* knows where domains begin. Gains in accuracy over
        the same method without a recovery, in points, ± standard deviation over the seeds:
        """
    )
    for stream, words in (("published", "Published rates"), ("collapse", "Rates that collapse")):
        table: dict[str, dict[int, float]] = {}
        for run in runs("aetta-recovery-cifar10"):
            if run["stream"] == stream:
                table.setdefault(run["recipe"], {})[run["seed"]] = 100 * run["summary"]["accuracy"]
        lines += [*head([words, *METHODS, "mean"])]
        lines.append(row("accuracy without", *(spread([*table[method].values()]) for method in METHODS), ""))
        for title, recovery in RECOVERIES.items():
            if f"tent + {recovery}" in table:
                gains = {
                    method: [table[f"{method} + {recovery}"][seed] - alone for seed, alone in table[method].items()]
                    for method in METHODS
                }
                by_seed = [fmean(of_seed) for of_seed in zip(*gains.values(), strict=True)]
                lines.append(row(title, *(signed(gains[method]) for method in METHODS), signed(by_seed)))
        lines.append("")
    return lines[:-1]


def signed(values: Sequence[float]) -> str:
    """Return a mean difference with its sign, and its spread."""
    shown = spread(values)
    return shown if shown.startswith("-") else f"+{shown}"


def networks() -> Lines:
    """Return what DHAuDS' Figures 3 to 7 and Table 9 show, for small networks of its other two kinds."""
    lines = ["## The other networks of the paper", ""]
    lines += text(
        """
        A small HuBERT and a small CoNMix++, trained here on ESC-10 and on spoken digits, over four epochs on
        `ENQ-L1` and `TST-L1`, three seeds (`results/dhauds-networks`). The first recipe of a network has the
        momentum and the two learning rates that the paper suggests; the others change one of them, or leave the
        pseudo-labels out. Accuracy on the data that is adapted to:
        """
    )
    return lines + MEASURED["epochs"]("dhauds-networks")


@dataclass(frozen=True)
class Section:
    """Part of a page that a result is shown in."""

    page: str  # in docs/results
    result: str
    lines: Callable[[], Lines]


SECTIONS = {
    "unitta official": Section("unitta", "unitta-official-cifar10", official),
    "unitta whole": Section("unitta", "unitta-whole-cifar10", whole),
    "ccc thresholds": Section("ccc", "ccc-thresholds-cifar10", thresholds),
    "ccc holdout": Section("ccc", "holdout-cifar10", holdout),
    "eta speed": Section("ccc", "eta-speed-cifar10", speed),
    "ccc lengths": Section("ccc", "ccc-rivals-cifar10", lengths),
    "aetta fully": Section("estimators", "aetta-fully-cifar10", fully),
    "aetta options": Section("estimators", "aetta-options-cifar10", options),
    "aetta recovery": Section("recovery", "aetta-recovery-cifar10", recoveries),
    "dhauds networks": Section("audio", "dhauds-networks", networks),
}


def pages() -> dict[Path, str]:
    """Return the pages, each with its sections between their marks."""
    content: dict[Path, str] = {}
    for page, group in groupby(SECTIONS.items(), lambda named: named[1].page):
        path = DOCS / "results" / f"{page}.md"
        written = path.read_text()
        for name, section in group:
            begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
            before, _, rest = written.partition(begin)
            _, _, after = rest.partition(end)
            there = (RESULTS / f"{section.result}.json").is_file()
            written = "\n".join([f"{before}{begin}\n", *(section.lines() if there else []), f"\n{end}{after}"])
        content[path] = written
    return content
