"""Write the tables of measured results between their marks in docs/newest.md and docs/results, for docs/pages.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from holdfast.report.metrics import collapse_onset

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
MEASURED = ("audio", "ccc", "estimators", "recovery", "unitta")
PAGES = [DOCS / "newest.md", *(DOCS / "results" / f"{name}.md" for name in MEASURED)]
PART = 15  # batches in a visit to the fifteen corruptions, one each
Run = dict[str, Any]


def runs(name: str) -> list[Run]:
    """Return the runs of a result, each with the label, the domains and the plan of its stream."""
    content = json.loads((RESULTS / f"{name}.json").read_text())
    for run in content["runs"]:
        stream = content["parts"][run["manifest"]["stream"]]
        run["stream"], run["domains"], run["plan"] = stream["label"], stream["domains"], stream["spec"].get("plan", {})
        run["network"] = content["parts"][run["manifest"]["protocol"]]["model"]
        run["seed"] = run["manifest"]["seed"]
    listed: list[Run] = content["runs"]
    return listed


def by_recipe(name: str, stream: str) -> dict[str, list[Run]]:
    """Return the runs on one stream, by recipe."""
    groups: dict[str, list[Run]] = {}
    for run in runs(name):
        if run["stream"] == stream:
            groups.setdefault(run["recipe"], []).append(run)
    return groups


def visits() -> dict[str, list[float]]:
    """Return the error of every visit to the fifteen corruptions, in %, by recipe."""
    return {
        run["recipe"]: [
            100 - 100 * fmean(run["batch_accuracy"][start : start + PART])
            for start in range(0, len(run["batch_accuracy"]), PART)
        ]
        for run in runs("recurrence-cifar10")
    }


def rise(errors: list[float], source: list[float]) -> float:
    """Return the slope of the least-squares line through the differences to the source, which meets the same images."""
    centre = (len(errors) - 1) / 2
    offsets = [offset - centre for offset in range(len(errors))]
    over = (own - other for own, other in zip(errors, source, strict=True))
    return sum(offset * value for offset, value in zip(offsets, over, strict=True)) / sum(
        offset**2 for offset in offsets
    )


def recurrence() -> list[str]:
    """Return the table of errors by visit."""
    visited = visits()
    number = len(next(iter(visited.values())))
    shown = [0, 1, 2, number // 2, number - 1]
    rows = [
        f"| recipe | {' | '.join(f'visit {visit + 1}' for visit in shown)} | mean | rise against the source, a visit |",
        "| --- |" + " ---: |" * (len(shown) + 2),
    ]
    for recipe, errors in visited.items():
        cells = [*(errors[visit] for visit in shown), fmean(errors)]
        rises = f"{rise(errors, visited['source']):+.2f}"
        rows.append(f"| `{recipe}` | {' | '.join(f'{cell:.1f}' for cell in cells)} | {rises} |")
    return rows


def accuracies(name: str, streams: list[str], *, resets: bool = False) -> list[str]:
    """Return a table of accuracies, over all and over the last quarter of each stream, and of resets if wanted."""
    columns = ["accuracy %", "last quarter %", *(["resets"] if resets else [])]
    titles = [f"{stream}: {column}" for stream in streams for column in columns]
    rows = [f"| recipe | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(titles)]
    tables = [by_recipe(name, stream) for stream in streams]
    for recipe in tables[0]:
        cells: list[str] = []
        for table in tables:
            of_recipe = table[recipe]
            ends = [fmean(run["batch_accuracy"][-len(run["batch_accuracy"]) // 4 :]) for run in of_recipe]
            cells += [f"{100 * fmean(run['summary']['accuracy'] for run in of_recipe):.1f}", f"{100 * fmean(ends):.1f}"]
            cells += [str(sum(run["resets"] for run in of_recipe))] if resets else []
        rows.append(f"| `{recipe}` | {' | '.join(cells)} |")
    return rows


def alarms() -> list[str]:
    """Return the table of alarms on TENT: those of `risk`, and the resets of the guard."""
    rows = [
        "| alarm | clean: alarms | continual: alarms | collapse: before | collapse: first after, in batches |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    marks = {
        "`risk` on TENT": {
            run["stream"]: run.get("alarm_batches", {}).get("risk", [])
            for run in runs("alarms-digits")
            if run["recipe"] == "tent"
        },
        "the guard's": {
            run["stream"]: run["reset_batches"] for run in runs("alarms-digits") if run["recipe"] == "guard's alarm"
        },
    }
    for name, batches in marks.items():
        before = sum(batch < ONSET for batch in batches["collapse"])
        after = next((str(batch - ONSET) for batch in batches["collapse"] if batch >= ONSET), "missed")
        rows.append(f"| {name} | {len(batches['clean'])} | {len(batches['continual'])} | {before} | {after} |")
    return rows


ONSET = 21  # the first batch that the damaged network predicts, in the streams `collapse`
WINDOW = 10  # batches of the moving average that tells when TENT stays below the source, as in the report


def arena() -> list[str]:
    """Return the table of the reset arena, as `holdfast report` makes it from the runs."""
    made: dict[tuple[str, str, int], Run] = {(run["recipe"], run["stream"], run["seed"]): run for run in runs("arena")}
    rows = [
        "| recovery | accuracy % | after the collapse % | false resets / 100 | missed | delay, batches |",
        "| --- |" + " ---: |" * 5,
    ]
    recipes = [recipe for recipe in dict.fromkeys(recipe for recipe, *_ in made) if recipe != "source"]
    for recipe, alarm in [*((recipe, None) for recipe in recipes), ("never", "risk")]:
        healthy = false = 0
        accuracies, after, delays = [], [], []
        for (_, stream, seed), run in ((key, run) for key, run in made.items() if key[0] == recipe):
            marks = run["reset_batches"] if alarm is None else run.get("alarm_batches", {}).get(alarm, [])
            accuracies.append(fmean(run["batch_accuracy"]))
            base = run if recipe == "guard's alarm" else made["never", stream, seed]
            until = ONSET if stream == "collapse" else _below(base, made["source", stream, seed])
            healthy, false = healthy + until, false + sum(mark < until for mark in marks)
            if stream == "collapse":
                after.append(fmean(run["batch_accuracy"][ONSET:]))
                delays.append(next((mark - ONSET for mark in marks if mark >= ONSET), None))
        known = [delay for delay in delays if delay is not None]
        cells = [f"{100 * fmean(accuracies):.1f}", f"{100 * fmean(after):.1f}", f"{100 * false / healthy:.1f}"]
        cells += [f"{len(delays) - len(known)} of {len(delays)}", f"{fmean(known):.1f}" if known else "–"]
        rows.append(f"| `{recipe}`{f', alarm of `{alarm}`' if alarm else ''} | {' | '.join(cells)} |")
    return rows


def _below(run: Run, source: Run) -> int:
    """Return the batch from which a run stays below the source, or the number of batches."""
    means = [
        [fmean(one["batch_accuracy"][max(0, end - WINDOW) : end]) for end in range(1, len(one["batch_accuracy"]) + 1)]
        for one in (run, source)
    ]
    onset = collapse_onset(*map(np.array, means))
    return len(run["batch_accuracy"]) if onset is None else onset


def settings(name: str) -> list[str]:
    """Return the table of errors in the main settings of UniTTA, averaged by how classes come."""
    table = errors_by_setting(name)
    kinds = ("(i,1)", "(n,1)", "(n,u)")
    rows = [
        f"| recipe | {' | '.join(f'{kind} classes' for kind in kinds)} | all 12 | worse than source in |",
        "| --- |" + " ---: |" * (len(kinds) + 2),
    ]
    for recipe, errors in table.items():
        means = [fmean(error for setting, error in errors.items() if setting.startswith(kind)) for kind in kinds]
        worse = sum(error > table["source"][setting] for setting, error in errors.items())
        cells = [*(f"{mean:.1f}" for mean in [*means, fmean(errors.values())]), str(worse)]
        rows.append(f"| `{recipe}` | {' | '.join(cells)} |")
    return rows


def errors_by_setting(name: str) -> dict[str, dict[str, float]]:
    """Return the error in each setting, in %, by recipe."""
    table: dict[str, dict[str, float]] = {}
    for run in runs(name):
        table.setdefault(run["recipe"], {})[run["stream"]] = 100 - 100 * run["summary"]["accuracy"]
    return table


def estimates(name: str, columns: dict[str, str]) -> list[str]:
    """Return the mean absolute errors of estimates of the accuracy of a batch, in points; ± is over the seeds."""
    by_method: dict[str, list[Run]] = {}
    for run in runs(name):
        by_method.setdefault(run["recipe"], []).append(run)
    rows = [f"| | accuracy | {' | '.join(columns)} |", "| --- |" + " ---: |" * (len(columns) + 1)]
    for method, made in by_method.items():
        cells = [f"{100 * fmean(run['summary']['accuracy'] for run in made):.1f}"]
        cells += [_spread([_off(run, estimator) for run in made]) for estimator in columns.values()]
        rows.append(f"| `{method}` | {' | '.join(cells)} |")
    adapted = [run for run in runs(name) if run["recipe"] != "source"]
    means = [fmean(_off(run, estimator) for run in adapted) for estimator in columns.values()]
    rows.append(f"| **mean** | | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    return rows


def _off(run: Run, estimator: str) -> float:
    """Return how far the estimates of a run are from the accuracy of their batches on average, in points."""
    pairs = zip(run["estimates"][estimator], run["batch_accuracy"], strict=True)
    return 100 * fmean(abs(value - truth) for value, truth in pairs if value is not None)


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def walks() -> list[str]:
    """Return the accuracy on CCC by difficulty, and in the last fifth against `batch_norm`."""
    made = runs("ccc-rivals-cifar10")
    levels = ("easy", "medium", "hard")
    ends = {(run["recipe"], run["stream"], run["seed"]): _last_fifth(run) for run in made}
    rows = [
        f"| recipe | {' | '.join(f'{level} %' for level in levels)} | all % | last fifth, against `batch_norm` |",
        "| --- |" + " ---: |" * (len(levels) + 2),
    ]
    for recipe in dict.fromkeys(run["recipe"] for run in made):
        own = [run for run in made if run["recipe"] == recipe]
        cells = []
        for level in (*levels, ""):
            by_seed: dict[int, list[float]] = {}
            for run in own:
                if run["stream"].startswith(level):
                    by_seed.setdefault(run["seed"], []).append(100 * run["summary"]["accuracy"])
            cells.append(_spread([fmean(values) for values in by_seed.values()]))
        gain = fmean(
            ends[recipe, run["stream"], run["seed"]] - ends["batch_norm", run["stream"], run["seed"]] for run in own
        )
        rows.append(f"| `{recipe}` | {' | '.join(cells)} | {gain:+.1f} |")
    return rows


def _last_fifth(run: Run) -> float:
    course = run["window_accuracy"]
    return 100 * fmean(course[-(len(course) // 5) :])


def epochs(name: str) -> list[str]:
    """Return the accuracy before, at the best and after the last epoch, and the decline between these two."""
    groups: dict[tuple[str, str], list[list[float]]] = {}
    for run in runs(name):
        curve = [100 * share for share in run["summary"]["sets"][0]["redrawn_accuracy"]]
        if run["recipe"] != "source":
            groups.setdefault((run["network"], run["recipe"]), []).append(curve)
    rows = ["| network | recipe | before % | best epoch % | last epoch % | decline |", "| --- | --- |" + " ---: |" * 4]
    for (network, recipe), curves in groups.items():
        first, best, last = (
            fmean(map(part, curves)) for part in (lambda curve: curve[0], max, lambda curve: curve[-1])
        )
        rows.append(f"| {network} | {recipe} | {first:.1f} | {best:.1f} | {last:.1f} | {best - last:.1f} |")
    return rows


def scores() -> list[str]:
    """Return accuracy, macro F1, ROC-AUC and silhouette of each recipe, averaged over criteria and seeds."""
    names = ("macro_f1", "macro_roc_auc", "silhouette")
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs("dhauds-scores"):
        groups.setdefault((run["network"], run["recipe"]), []).append(run)
    rows = ["| network | recipe | accuracy % | macro F1 | ROC-AUC | silhouette |", "| --- | --- |" + " ---: |" * 4]
    for (network, recipe), made in groups.items():
        cells = [f"{100 * fmean(run['summary']['accuracy'] for run in made):.1f}"]
        cells += [f"{fmean(run['summary']['sets'][0]['scores'][name] for run in made):.3f}" for name in names]
        rows.append(f"| {network} | `{recipe}` | {' | '.join(cells)} |")
    return rows


ESTIMATORS = {  # by the names of the paper
    "SrcValid": "source_validation",
    "softmax": "softmax_score",
    "GDE": "gde",
    "AdvPerturb": "adv_perturb",
    "AETTA": "aetta",
    "fitted": "aetta fitted",
    "PDD": "pdd",
    "ours": "anchored",
}
OPTIONS = {
    **{f"{number} masks": f"aetta N={number}" for number in (5, 15)},
    **{f"α = {power}": "aetta" if power == 3 else f"aetta alpha={power}" for power in range(6)},
}
TABLES: dict[str, Callable[[], list[str]]] = {
    "aetta continual": lambda: estimates("aetta-continual-cifar10", ESTIMATORS),
    "ccc rivals": walks,
    "dhauds momentum": lambda: epochs("dhauds-momentum"),
    "dhauds scores": scores,
    "settings": lambda: settings("newest-unitta-cifar10"),
    "long": lambda: settings("unitta-cifar10-long"),
    "alarms": alarms,
    "arena": arena,
    "recurrence": recurrence,
    "asr": lambda: accuracies("asr-digits", ["ccc", "cross"], resets=True),
    "collapse digits": lambda: accuracies("collapse-digits", ["sorted", "shuffled"]),
    "collapse cifar10": lambda: accuracies("collapse-cifar10", ["sorted", "shuffled"]),
}


def pages() -> dict[Path, str]:
    """Return the pages, each with its tables between their marks."""
    return {path: page(path) for path in PAGES}


def page(path: Path) -> str:
    """Return a page with each table between its marks."""
    text = path.read_text()
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if begin in text:
            before, _, rest = text.partition(begin)
            _, _, after = rest.partition(end)
            text = "\n".join([f"{before}{begin}\n", *table(), f"\n{end}{after}"])
    return text
