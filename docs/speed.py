"""Write the figures of speed and memory in the documents from the committed results, for docs/pages.py.

Every figure has its spread in brackets: the lowest and the highest value of the processes that measured it.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
PAGE = DOCS / "results" / "speed.md"
sys.path.append(str(DOCS.parent / "benchmarks"))
from measured import Figure, figures, rows  # noqa: E402
from targets import read_targets  # noqa: E402

TITLES = {
    "corruptions": "Image corruptions, with the extra `fast`",
    "corruptions-without-fast": "Image corruptions, without the extra",
    "audio-speed": "Audio corruptions",
    "step-cost": "Steps, in batches of 64",
    "step-cost-batch-1": "Steps, in batches of 1",
    "step-cost-input-guards": "Checks of inputs, and the transaction around a step",
    "estimator-cost": "Estimators",
    "serve": "The service",
    "soak-serve": "Long runs of the service",
    "peers": "Steps beside plain loops",
    "on-device": "ONNX files that adapt",
    "pipeline": "Rendering while a network runs",
    "executors": "Two processes",
    "executors-ray": "Two workers of a Ray cluster",
    "recommend": "Recommendations",
    "sampler": "Markov plans",
    "shards": "Shards",
    "report-speed": "Reports",
    "soak": "Long runs",
}
INTRODUCTION = """\
# Speed and memory, measured

`make bench` measures everything on this page anew, in about 80 minutes on an idle machine, and `make pages` writes it;
`make bench-check` compares a quick run with it. A figure is the median of three processes, with the lowest and the
highest value in brackets; one without brackets was measured once or never differs. Ratios are of two things measured
in alternation in one process. The aims are those of `benchmarks/targets.toml`.
"""


def content_of(name: str) -> dict[str, Any]:
    """Return a committed result; one without figures if there is none."""
    path = RESULTS / f"{name}.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"measured": {}}
    return content


def text(name: str, path: str, digits: int = 2, factor: float = 1) -> str:
    """Return one figure with its spread."""
    figure = figures(content_of(name)).get(path)
    return "(not measured)" if figure is None else figure.text(digits, factor)


def table(name: str) -> list[str]:
    """Return all figures of a result as Markdown."""
    labelled = rows(content_of(name))
    columns = list(dict.fromkeys(key for row in labelled.values() for key in row))
    if set(labelled) == {""}:
        return [
            "| figure | |",
            "| --- | ---: |",
            *(f"| {_words(key)} | {_cell(labelled[''][key])} |" for key in columns),
        ]
    head = f"| | {' | '.join(map(_words, columns))} |"
    lines = [
        f"| {label or 'all'} | {' | '.join(_cell(row.get(key)) for key in columns)} |"
        for label, row in labelled.items()
    ]
    return [head, f"| --- |{' ---: |' * len(columns)}", *lines]


def _words(key: str) -> str:
    return key.replace("_", " ")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value.rounded() if isinstance(value, Figure) else str(value)


def aims(name: str) -> list[str]:
    """Return the aims of a result with the figures that they are about, and whether they are met."""
    known = figures(content_of(name))
    lines = [
        f"| {path} | {figure.rounded()} | {aim.text()} | {'yes' if met else '**no**'} |"
        for aim in read_targets()[name].aims
        for path, figure, met in _worst(aim.judged(known))
    ]
    return ["", "| aim for | measured | aim | met |", "| --- | ---: | --- | --- |", *lines] if lines else []


def _worst(judged: Iterable[tuple[str, Figure, bool]]) -> list[tuple[str, Figure, bool]]:
    """Return what misses an aim; if nothing does, the first few figures."""
    every = list(judged)
    return [each for each in every if not each[2]] or every[:3]


def whole_page() -> str:
    """Return the page of all results."""
    sections = []
    for name, title in TITLES.items():
        content = content_of(name)
        if "machine" in content:
            facts = {"processes": content.get("processes", 1), **content["machine"]}
            shown = [
                key for key in ("processes", "measured_at", "commit", "processor", "cores", "load") if key in facts
            ]
            words = ", ".join(f"{_words(key)} {str(facts[key])[:10]}" for key in shown)
            measured = f"`results/{name}.json`: {words}."
            sections += [f"\n## {title}\n", measured, "", *table(name), *aims(name)]
    return "\n".join([INTRODUCTION, *sections]).replace("\n\n\n", "\n\n") + "\n"


def corruptions() -> str:
    """Return how fast corruptions are."""
    known = figures(content_of("corruptions"))
    end = "/images_per_second"
    rates = {path: known[path] for path in known if path.startswith("224 px/") and path.endswith(end)}
    slowest = sorted(rates, key=lambda path: rates[path].median)[:3]
    listed = ", ".join(
        f"{path.split('/')[1].replace('_', ' ')} {text('corruptions', path, 0)}{_without(path)}" for path in slowest
    )
    compared = (
        f"All but glass blur are, in the geometric mean, {text('corruptions', '224 px, all/ratio', 1)} times as fast "
        f"as `imagecorruptions` at 224 pixels and {text('corruptions', '32 px, all/ratio', 1)} times at 32. "
        if "224 px, all/ratio" in known
        else ""
    )
    return (
        'The extra `fast` (`pip install "holdfast[fast]"`) compiles the loops of corruptions by numba and takes the '
        "JPEG codec of OpenCV, with the same pixels. The slowest corruptions, in images of 224 pixels a second: "
        f"{listed}. {compared}{_see('corruptions')}"
    )


def _without(path: str) -> str:
    plain = figures(content_of("corruptions-without-fast")).get(path)
    return f" ({plain.text(0)} without the extra)" if plain else ""


def steps() -> str:
    """Return what steps cost beside the official code."""
    known = figures(content_of("step-cost"))
    labels = [path.removesuffix("/official") for path in known if path.endswith("/official")]
    ratios = {label: known[f"{label}/forwards"].median / known[f"{label}/official"].median for label in labels}
    mean = f"{geometric_mean(ratios.values()):.2f}"
    overall = known["all/of_official"].text() if "all/of_official" in known else mean
    dearest = max(ratios, key=lambda label: ratios[label])
    shown = ("anchor", "blend", "tent", "guard(tent)")
    costs = ", ".join(f"`{label}` {text('step-cost', f'{label}/forwards')}" for label in shown)
    return (
        f"A step takes {overall} of the time of the official code, in the geometric mean of {len(ratios)} recipes, and "
        f"{ratios[dearest]:.2f} at most (`{dearest}`). In forward passes of the bare network: {costs}. Each recipe "
        "runs in the faster of the contiguous and the `channels_last` format; the unit is a contiguous forward pass. "
        "One thread, ResNet-20, batches of 64. The official figures were measured once in the same units. "
        f"{_see('step-cost')}"
    )


def promise() -> str:
    """Return what the anchor, the default and the guard cost."""
    anchor, blend, guard = (text("step-cost", f"{name}/forwards") for name in ("anchor", "blend", "guard(tent)"))
    return (
        f"The anchor costs {anchor} forward passes of the network, the default {blend}, and the guard around TENT "
        f"{guard}, measured with a ResNet-20 on one thread. {_see('step-cost')}"
    )


def pipeline() -> str:
    """Return what rendering costs."""
    recipes = ("source", "tent", "rdumb")
    ratios = ", ".join(f"`{recipe}` {text('pipeline', f'end_to_end/ratios/{recipe}')}" for recipe in recipes)
    return (
        f"On two cores, ten recipes on one stream at 224 pixels cost {text('pipeline', 'ten_recipes')} of the "
        f"rendering of one, and two render workers deliver {text('pipeline', 'two_workers')} times as many images as "
        f"one. With render workers, steps reach this share of the speed of the bare loop: {ratios}. {_see('pipeline')}"
    )


def executors() -> str:
    """Return the efficiency of executors."""
    names = ("executors", "executors-ray")
    ideal, by_hand = ([text(name, key) for name in names] for key in ("efficiency", "efficiency_of_machine"))
    return (
        f"Two processes have an efficiency of {ideal[0]}, and two workers of a running Ray cluster {ideal[1]}. Busy "
        "cores slow each other down, also without an executor: compared with the same jobs in two Python processes "
        f"started by hand, the efficiency is {by_hand[0]} and {by_hand[1]}. {_see('executors')}"
    )


def serve() -> str:
    """Return what the service costs, as a table."""
    keys = {
        "throughput of the service / bare loop": "throughput / bare loop",
        "begin / bare forward": "begin / bare forward",
        "request / plain request": "request / plain request",
        "state in memory / network": "tenant / network, memory",
    }
    cases = [label for label in rows(content_of("serve")) if label and "milliseconds" not in label]
    lines = [f"| {case} | {' | '.join(text('serve', f'{case}/{key}') for key in keys)} |" for case in cases]
    return "\n".join([f"| method | {' | '.join(keys.values())} |", f"| --- |{' ---: |' * len(keys)}", *lines])


def guards() -> str:
    """Return what the checks of inputs cost at most."""
    name = "step-cost-input-guards"
    shares = [figure for path, figure in figures(content_of(name)).items() if path.endswith("/of_forward")]
    most = max(shares, key=lambda figure: figure.median).text(1, 100)
    return (
        f"The checks of the inputs and the transaction around a step cost at most {most} % of a bare forward, whatever "
        f"the recipe. {_see(name)}"
    )


def _see(name: str) -> str:
    return f"([Speed and memory, measured](results/speed.md), [results/{name}.json](../results/{name}.json))"


MARKS: dict[str, tuple[str, Callable[[], str]]] = {
    "speed of corruptions": ("devices.md", corruptions),
    "speed of steps": ("devices.md", steps),
    "speed of the promise": ("promise.md", promise),
    "speed of rendering": ("cluster.md", pipeline),
    "speed of executors": ("cluster.md", executors),
    "speed of the service": ("serving.md", serve),
    "speed of input checks": ("networks.md", guards),
}


def pages() -> dict[Path, str]:
    """Return the pages, each with its figures between their marks."""
    texts = {DOCS / page: (DOCS / page).read_text() for page, _ in MARKS.values()}
    for mark, (page, made) in MARKS.items():
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, rest = texts[DOCS / page].split(begin)
        _, after = rest.split(end)
        said = made() if "\n" in made() else textwrap.fill(made(), 120, break_long_words=False, break_on_hyphens=False)
        texts[DOCS / page] = f"{before}{begin}\n\n{said}\n\n{end}{after}"
    return {**texts, PAGE: whole_page()}
