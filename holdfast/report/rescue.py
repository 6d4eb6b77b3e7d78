"""The story that `holdfast demo` tells: adapting helps, the same adapting collapses, and the guard holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.display.cells import WordTable
from holdfast.report.figures import COLOURS, GREY, HOVER, Figure, axis, known, trace
from holdfast.report.metrics import accuracy, mean_of_known
from holdfast.report.runs import Floats, Rows
from holdfast.report.tables import Table

SHUFFLED = "shuffled"  # the label of the stream on which adapting helps
SUITES = ("demo-rescue", "demo-rescue-audio")
SOURCE, TENT, GUARDED, DEFAULT = RECIPES = ("source", "tent", "guarded tent", "blend")

NOTE = (
    "By class: each batch holds one class. Estimated: TENT's accuracy, without labels. Guarded: TENT under the guard. "
    "Default: holdfast.adapt(model). Alarm at: number of samples before the first alarm of the guard."
)


@dataclass(frozen=True, eq=False)
class Scene:
    """One stream of the demo, with the batches of each recipe."""

    data: str
    stream: str
    rows: Mapping[str, Rows]  # by the label of the recipe

    def accuracy(self, label: str) -> float:
        """Return the accuracy of a recipe over the stream, in %."""
        return 100 * accuracy(self.rows[label])

    @property
    def estimated(self) -> float:
        """The accuracy of the unguarded method as estimated without labels, mean over the batches, in %."""
        return 100 * float(np.nanmean(self.rows[TENT].estimates["anchored"].value))

    @property
    def alarm(self) -> int | None:
        """The number of samples after which the guard first raised an alarm, if it did."""
        rows = self.rows[GUARDED]
        return next((int(end) for end, why in zip(rows.ends, rows.recovered, strict=True) if why), None)


def scenes(tables: Iterable[Table]) -> list[Scene]:
    """Return the scenes of the demo among the tables of a report: of each data set first the one that goes well."""
    streams = []
    for table in tables:
        manifest = table.manifest
        rows = {line.label: line.runs[0].rows for line in table.lines}
        if manifest.suite in SUITES and set(RECIPES) <= set(rows) and "anchored" in rows[TENT].estimates:
            streams.append(Scene(manifest.model.name.partition("_")[0], manifest.stream.label, rows))
    return streams


def story_table(streams: Sequence[Scene]) -> WordTable:
    """Return the accuracies of the demo, one line for each stream."""
    columns = ["accuracy (%)", "source", "tent", "estimated", "guarded", "default", "alarm at"]
    rows = [
        [
            f"{scene.data}, {scene.stream}",
            f"{scene.accuracy(SOURCE):.1f}",
            f"{scene.accuracy(TENT):.1f}",
            f"{scene.estimated:.1f}",
            f"{scene.accuracy(GUARDED):.1f}",
            f"{scene.accuracy(DEFAULT):.1f}",
            "–" if scene.alarm is None else f"{scene.alarm:,}",
        ]
        for scene in streams
    ]
    return WordTable("Collapse and rescue", columns, rows, NOTE)


def sentences(streams: Sequence[Scene]) -> list[str]:
    """Return the story in three sentences, with the numbers of these runs."""
    well, badly = ([scene for scene in streams if (scene.stream == SHUFFLED) is good] for good in (True, False))
    helps = all(scene.accuracy(TENT) > scene.accuracy(SOURCE) for scene in well)
    alarms = [f"{scene.alarm} samples ({scene.data})" for scene in badly if scene.alarm is not None]
    return [
        f"{'Adapting helps' if helps else 'Adapting does not always help'}: on shuffled classes TENT is right on "
        f"{_each(well, lambda scene: f'{_share(scene, TENT)} (source: {scene.accuracy(SOURCE):.1f} %)')}.",
        "When each batch holds one class, the same TENT fails without an error: it is right on "
        f"{_each(badly, lambda scene: f'{_share(scene, TENT)} (estimated without labels: {scene.estimated:.1f} %)')}.",
        f"Under the guard it is right on {_each(badly, lambda scene: _share(scene, GUARDED))} there, "
        f"{'with an alarm after ' + ' and '.join(alarms) if alarms else 'without an alarm'}; the default, "
        f"holdfast.adapt(model), on {_each(badly, lambda scene: _share(scene, DEFAULT))}.",
    ]


def _share(scene: Scene, label: str) -> str:
    return f"{scene.accuracy(label):.1f} % of the {scene.data}"


def _each(streams: Sequence[Scene], say: Callable[[Scene], str]) -> str:
    return " and ".join(map(say, streams)) or "nothing"


def story_figures(streams: Sequence[Scene]) -> list[Figure]:
    """Return accuracy along each class-correlated stream: true and estimated, guarded and not, and the alarm."""
    return [_figure(scene) for scene in [scene for scene in streams if scene.stream != SHUFFLED] or streams]


def _figure(scene: Scene) -> Figure:
    x_axis = axis(f"{scene.data}, {scene.stream}: samples seen")
    y_axis = axis("accuracy (%)", range=[0, 107], dtick=20)
    layout = {"height": 380, "margin": {"t": 16}, "xaxis": x_axis, "yaxis": y_axis}
    return {"data": _curves(scene), "layout": layout}


def _curves(scene: Scene) -> list[Figure]:
    curves = []
    for label, colour in ((SOURCE, GREY), (TENT, COLOURS[7]), (GUARDED, COLOURS[2])):
        rows = scene.rows[label]
        look = {"color": colour, "width": 2}
        curves.append(trace(label, rows.ends.tolist(), _smoothed(rows.accuracy), line=look, hovertemplate=HOVER))
    rows = scene.rows[TENT]
    estimates, look = _smoothed(rows.estimates["anchored"].value), {"color": COLOURS[7], "width": 1.5, "dash": "dot"}
    name = "tent, estimated without labels"
    curves.append(trace(name, rows.ends.tolist(), estimates, line=look, hovertemplate=HOVER))
    if scene.alarm is not None:
        mark, text = {"symbol": "triangle-down", "size": 11, "color": COLOURS[2]}, "alarm after %{x} samples"
        curves.append(trace("alarm of the guard", [scene.alarm], [104], "markers", marker=mark, hovertemplate=text))
    return curves


def _smoothed(shares: Floats, batches: int = 5) -> list[float | None]:
    """Return the mean of the last batches in %, None where nothing is known."""
    windows = (shares[max(0, end - batches) : end] for end in range(1, len(shares) + 1))
    return known(np.array([100 * mean_of_known(window) for window in windows]), 2)
