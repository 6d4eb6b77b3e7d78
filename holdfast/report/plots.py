"""Figures of a table: scores over time, epochs and cost, severities, gauges and certainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.display.cells import printed
from holdfast.report.figures import COLOURS, DASHES, GREY, HOVER, POINTS, Figure, axis, known, layout, rule, trace
from holdfast.report.metrics import collapse_onset, domains_seen, moving_accuracy, moving_average
from holdfast.report.runs import Rows
from holdfast.report.scores import percent
from holdfast.report.tables import Line, Table

MOST_DOMAIN_STARTS = 40
MOST_MARKS = 2000  # a screen has fewer columns of pixels
LETTER_PX = 6
NARROW_PX = 300  # width of a plot on a phone


def along_stream(data: list[Figure], table: Table, title: str, *, height: int, **y_axis: Any) -> Figure:
    """Return traces over the samples seen, from the first to the last."""
    x_axis = axis("samples seen", range=[0, length_of(table)])
    return {"data": data, "layout": layout(height, x_axis, axis(title, **y_axis), margin={"t": 16})}


def length_of(table: Table) -> int:
    """Return the number of samples of the longest run."""
    return max(int(run.rows.ends[-1]) for run in table.runs)


def over_time(table: Table) -> Figure:
    """Return the score along the stream: a moving mean for each recipe, with domains and resets marked."""
    positions = positions_shown(table)
    resetting = [line for line in table.lines if line.resets]
    height = 420 + 10 * len(table.lines)  # the legend takes its lines from the plot
    x_axis = axis("samples seen", range=[0, length_of(table)], anchor="y2" if resetting else "y")
    laid_out = layout(height, x_axis, axis(axis_title(table)), **domain_marks(table, length_of(table)))
    laid_out["shapes"] = [*laid_out.get("shapes", []), *collapse_shapes(table)]
    if resetting:
        laid_out |= reset_panel(laid_out, len(resetting))
    curves = [curve(table, line, positions) for line in table.lines]
    collapses = [collapse_mark(table, line, positions) for line in table.lines if line is not table.source]
    return {
        "data": curves
        + [mark for mark in (baseline(table), *collapses) if mark]
        + [reset_marks(table, line, level) for level, line in enumerate(resetting)],
        "layout": laid_out,
    }


def positions_shown(table: Table) -> NDArray[np.int64]:
    """Return the positions at which curves have points: the ends of all batches, or as many as a chart can show."""
    ends = np.unique(np.concatenate([run.rows.ends for run in table.runs]))
    return ends if len(ends) <= POINTS else np.unique(np.linspace(ends[0], ends[-1], POINTS).astype(np.int64))


def collapse_shapes(table: Table) -> list[Figure]:
    """Return a shade over a scripted collapse, if there is one."""
    script = table.protocol.get("collapse")
    if script is None:
        return []
    ends = {"x0": script["from_sample"], "x1": script["from_sample"] + script["samples"]}
    shade = {"fillcolor": "#d64b4b", "opacity": 0.15, "line": {"width": 0}, "layer": "below"}
    return [{"type": "rect", "yref": "paper", "y0": 0, "y1": 1, **ends, **shade}]


def over_epochs(table: Table) -> Figure | None:
    """Return the score after each epoch of adaptation, measured with labels; None without them.

    It is the score by which the epoch was chosen, if that is not the accuracy.
    """
    score = table.oracle_score
    key = "redrawn_accuracy" if score is None else "redrawn_score"
    curves = []
    for line in table.lines:
        by_set = [run_set[key] for run in line.runs for run_set in run.sets if key in run_set]
        shares = np.mean(by_set, axis=0) if by_set else np.empty(0)
        if len(shares) > 1:
            scores = [percent(share, table.metric if score is None else "accuracy") for share in shares.tolist()]
            rounded = [round(one, 2) for one in scores]
            name, epochs = escape(line.label), list(range(len(shares)))
            look = stroke(table, line)
            curves.append(trace(name, epochs, rounded, "lines+markers", line=look, hovertemplate=HOVER))
    if not curves:
        return None
    title = axis_title(table) if score is None else f"{score} (%)"
    return {"data": curves, "layout": layout(360, axis("epochs"), {"title": {"text": title}})}


def baseline(table: Table) -> Figure | None:
    """Return the accuracy that the stream was calibrated to; None without calibration."""
    rows = table.runs[0].rows
    if np.isnan(rows.expected).all():
        return None
    window = max(1, round(window_samples(table) / float(np.mean(rows.size))))
    smooth = np.convolve(rows.expected, np.ones(window) / window, "valid")
    ends = rows.ends[window - 1 :]
    chosen = np.unique(np.linspace(0, len(ends) - 1, POINTS).astype(np.int64))
    scores = [round(percent(share, table.metric), 2) for share in smooth[chosen].tolist()]
    look = {"color": GREY, "dash": "longdash", "width": 1}
    return trace("calibrated", ends[chosen].tolist(), scores, line=look, hovertemplate=HOVER)


def collapse_mark(table: Table, line: Line, positions: NDArray[np.int64]) -> Figure | None:
    """Return a cross where a recipe falls below the source and stays there."""
    if table.source is None:
        return None
    mine, sources = moving_mean(table, line, positions), moving_mean(table, table.source, positions)
    onset = collapse_onset(mine, sources)
    if onset is None:
        return None
    label = escape(line.label)
    return trace(
        f"{label} collapsed",
        [int(positions[onset])],
        [round(percent(float(mine[onset]), table.metric), 2)],
        "markers",
        label,
        marker={"symbol": "x", "size": 11, "color": colour(table, line)},
        hovertemplate=f"{label} stays below the source from here on<extra></extra>",
    )


def moving_mean(table: Table, line: Line, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the moving accuracy of one recipe, averaged over its seeds."""
    window = window_samples(table)
    return np.asarray(np.mean([moving_accuracy(run.rows, positions, window) for run in line.runs], axis=0))


def window_samples(table: Table) -> int:
    """Return the window of the moving mean in samples: shorter than a domain, long enough for a smooth line."""
    length = max(run.samples for run in table.runs)
    batch = max(int(run.rows.size.max()) for run in table.runs)
    return max(length // 100, min(length // 20, 512), batch)


def curve(table: Table, line: Line, positions: NDArray[np.int64]) -> Figure:
    """Return the moving score of one recipe, averaged over its seeds."""
    accuracy = moving_mean(table, line, positions)
    scores = [round(percent(share, table.metric), 2) for share in accuracy.tolist()]
    label = escape(line.label)
    look = stroke(table, line)
    return trace(label, positions.tolist(), scores, group=label, line=look, hovertemplate=HOVER)


def reset_marks(table: Table, line: Line, level: int) -> Figure:
    """Return a tick for every reset of a recipe, or stretch of them, all seeds on one level of the panel below."""
    label = escape(line.label)
    marks = thinned(
        {
            int(end): f"{label}: {escape(reason)}"
            for run in line.runs
            for end, reason in zip(run.rows.ends, run.rows.recovered, strict=True)
            if reason is not None
        }
    )
    return trace(
        f"{label} resets",
        list(marks),
        [level] * len(marks),
        "markers",
        label,
        yaxis="y2",
        text=list(marks.values()),
        hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "line-ns", "size": 8, "line": {"width": 1.5, "color": colour(table, line)}},
    )


def thinned(marks: Mapping[int, str], most: int = MOST_MARKS) -> dict[int, str]:
    """Return at most `most` of the marks, texts by position: the first of each stretch, which counts the others.

    >>> thinned({10: "a reset", 20: "a reset", 900: "a reset"}, most=2)
    {10: 'a reset (and 1 more up to sample 20)', 900: 'a reset'}
    >>> thinned({10: "a reset", 900: "a reset"}, most=2)
    {10: 'a reset', 900: 'a reset'}
    """
    if len(marks) <= most:
        return dict(marks)
    first, last = min(marks), max(marks)
    stretches: dict[int, list[int]] = {}
    for position in sorted(marks):
        stretches.setdefault((position - first) * most // (last - first + 1), []).append(position)
    return {
        start: marks[start] + (f" (and {len(others)} more up to sample {others[-1]})" if others else "")
        for start, *others in stretches.values()
    }


def reset_panel(laid_out: Figure, levels: int) -> Figure:
    """Return the axes that make room for the resets below the curves."""
    height = min(0.02 + 0.03 * levels, 0.25)
    panel = {
        "domain": [0, height],
        "range": [levels - 0.5, -0.5],
        "tickvals": [(levels - 1) / 2],
        "ticktext": ["resets"],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }
    return {"yaxis": laid_out["yaxis"] | {"domain": [height + 0.03, 1]}, "yaxis2": panel}


def domain_marks(table: Table, length: int) -> Figure:
    """Return a line where each domain starts, and its name above it; nothing where the seeds do not agree on them."""
    starts, *others = [domain_starts(run.rows) for run in table.runs]
    if not 0 < len(starts) <= MOST_DOMAIN_STARTS or any(other != starts for other in others):
        return {"margin": {"t": 16}}
    ends = [position for position, _ in starts[1:]] + [length]
    widths = [LETTER_PX * len(name) for _, name in starts]
    slanted = sum(widths) > NARROW_PX
    name = {"yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False, "font": {"size": 11}}
    slant = {"textangle": -55, "xanchor": "left"} if slanted else {"xanchor": "center"}
    return {
        "shapes": [rule(x0=position, x1=position, yref="paper", y0=0, y1=1, opacity=0.6) for position, _ in starts[1:]],
        "annotations": [
            {**name, **slant, "x": (start + end) / 2, "text": escape(domain)}
            for (start, domain), end in zip(starts, ends, strict=True)
        ],
        "margin": {"t": 20 + round(0.82 * max(widths)), "r": 8 + round(0.5 * widths[-1])} if slanted else {"t": 28},
    }


def domain_starts(rows: Rows) -> list[tuple[int, str]]:
    """Return where each stretch of one domain starts; nothing for a stream that mixes domains within its batches."""
    order = np.lexsort((rows.pair_samples, rows.pair_batch))
    last_of_batch = np.flatnonzero(np.diff(rows.pair_batch[order], append=-1))
    main = order[last_of_batch]  # the pair with the most samples of each batch
    if (2 * rows.pair_samples[main] < rows.size).any():
        return []
    domain = rows.pair_domain[main]
    changes = np.flatnonzero(np.diff(domain, prepend=-1))
    return [(int(rows.position[batch]), rows.domains[domain[batch]]) for batch in changes]


def severities(table: Table) -> Figure | None:
    """Return both severities along a walk, as the first run met them; None for any other stream."""
    run = table.runs[0]
    plan = run.manifest.stream.spec.get("plan", {})
    plan = plan["walk"] if plan.get("kind") == "cross" and plan["transition_chain"] is None else plan
    if plan.get("kind") != "walk":
        return None
    cells = [cell for entry in plan["transitions"] for cell in entry["cells"]]
    names = [entry["domain"].split("+") for entry in plan["transitions"] for _ in entry["cells"]]
    # A long walk comes round again and again; more steps than this would be a blur.
    steps = range(min(-(-run.samples // plan["images_per_step"]), 2 * POINTS))
    indices = [step % len(cells) for step in steps]
    sides = [
        trace(
            name,
            [step * plan["images_per_step"] for step in steps],
            [cells[index][side] / 4 for index in indices],
            text=[escape(names[index][side]) for index in indices],
            line={"shape": "hv", "color": colour, "width": 1.5},
            hovertemplate="%{text} %{y}",
        )
        for side, (name, colour) in enumerate(zip(("fading out", "fading in"), COLOURS, strict=False))
    ]
    y_axis = axis("severity", range=[-0.2, 5.2])
    return {"data": sides, "layout": layout(260, axis("samples seen"), y_axis, margin={"t": 16})}


def gauge_over_time(table: Table, name: str) -> Figure:
    """Return a number that methods keep of themselves along the stream; beside their domains, the true ones so far."""
    positions = np.append(0, positions_shown(table))

    def steps(label: str, look: Figure, runs: list[tuple[Rows, NDArray[Any]]]) -> Figure:
        means = np.mean([held(*run, positions) for run in runs], 0)
        look = {**look, "shape": "hv", "width": 2}
        return trace(label, positions.tolist(), known(means), line=look, hovertemplate="%{y:.3~g}")

    curves = [
        steps(escape(line.label), {"color": colour(table, line), "dash": dash(table, line)}, gauges)
        for line in table.lines
        if (gauges := [(run.rows, run.rows.gauges[name]) for run in line.runs if name in run.rows.gauges])
    ]
    if name == "domains":
        seen = [(run.rows, domains_seen(run.rows)) for run in table.lines[0].runs]
        curves.insert(0, steps("in the stream", {"color": GREY, "dash": "longdash"}, seen))
    return along_stream(curves, table, name, height=300, rangemode="tozero")


def confidence_over_time(table: Table) -> Figure | None:
    """Return the moving mean of the confidence of the predictions, in %; None where no run has it."""
    return certainty_over_time(table, lambda rows: 100 * rows.confidence, "confidence (%)", "%{y:.1f} %")


def entropy_over_time(table: Table) -> Figure | None:
    """Return the moving mean of the entropy of the predictions, in nats; None where no run has it."""
    return certainty_over_time(table, lambda rows: rows.entropy, "entropy (nats)", "%{y:.3~g}")


def certainty_over_time(
    table: Table, column: Callable[[Rows], NDArray[np.float64]], title: str, hover: str
) -> Figure | None:
    """Return the moving mean of a column of every recipe, averaged over its seeds; None where no run has it."""
    positions = positions_shown(table)
    window = window_samples(table)
    curves = []
    for line in table.lines:
        courses = [moving_average(run.rows, column(run.rows), positions, window) for run in line.runs]
        course = np.mean(courses, axis=0)
        if not np.isnan(course).all():
            name, points, look = escape(line.label), known(course), stroke(table, line)
            curves.append(trace(name, positions.tolist(), points, line=look, hovertemplate=hover))
    height = 300 + 10 * len(table.lines)  # the legend takes its lines from the plot
    return along_stream(curves, table, title, height=height) if curves else None


def held(rows: Rows, values: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the value of the batch at each position; the last value holds beyond the last batch."""
    batch = np.minimum(np.searchsorted(rows.ends, positions, side="right"), len(rows) - 1)
    return np.asarray(values, np.float64)[batch]


def against_cost(table: Table) -> Figure:
    """Return the mean score of each recipe over its cost, with a line at the source."""
    most = max(line.passes for line in table.lines)
    sides = label_sides(table)
    ticks = [value for value in (0.5, 1, 2, 3, 5, 10, 20, 30, 50, 100, 200) if value < 2 * most]
    axes = axis("passes per sample, × forward", type="log", tickvals=ticks), axis(axis_title(table))
    levels = [table.source.mean] if table.source else []
    shapes = [rule(xref="paper", x0=0, x1=1, y0=level, y1=level) for level in levels]
    dots = [dot(table, line, side) for line, side in zip(table.lines, sides, strict=True)]
    look: Figure = {"showlegend": False, "hovermode": "closest", "margin": {"t": 16}, "shapes": shapes}
    return {"data": dots, "layout": layout(400, *axes, **look)}


def label_sides(table: Table) -> list[str | None]:
    """Return the side of its dot for each label: right, unless a label nearby is already there.

    Where all sides are taken there is none: the name is shown when one points at the dot.
    """
    spread = max(line.mean for line in table.lines) - min(line.mean for line in table.lines) or 1
    dearest = max(line.passes for line in table.lines)
    sides: list[str | None] = []
    for line in table.lines:
        near = [
            side
            for other, side in zip(table.lines, sides, strict=False)
            if abs(other.mean - line.mean) < 0.05 * spread and abs(other.passes - line.passes) < 0.2 * line.passes
        ]
        # There is no room to the right of the most expensive recipe.
        free = ["middle left" if line.passes == dearest else "middle right", "bottom center", "top center"]
        sides.append(next((side for side in free if side not in near), None))
    return sides


def dot(table: Table, line: Line, label_side: str | None) -> Figure:
    """Return one recipe as a labelled dot, its bar the standard deviation over the seeds."""
    time = table.relative_time(line)
    facts = [f"{printed(line.mean)} % {table.metric}", f"{line.passes:.2f} × forward"]
    if not math.isnan(time):
        facts.append(f"{time:.2f} × the source's step time")
    return trace(
        escape(line.label),
        [round(line.passes, 4)],
        [round(line.mean, 4)],
        "markers+text" if label_side else "markers",
        error_y={"array": [line.std or 0], "visible": line.std is not None, "thickness": 1, "width": 4},
        text=[f"  {escape(line.label)}  "],
        textposition=label_side or "middle right",
        cliponaxis=False,
        marker={"size": 11, "color": colour(table, line)},
        hovertemplate=f"<b>{escape(line.label)}</b><br>{'<br>'.join(facts)}<extra></extra>",
    )


def axis_title(table: Table) -> str:
    """Return the title of an axis of scores."""
    return f"{table.metric} (%)"


def colour(table: Table, line: Line) -> str:
    """Return the colour of a recipe, the same in every figure of its table; the source is grey."""
    return GREY if line.is_source else COLOURS[table.lines.index(line) % len(COLOURS)]


def dash(table: Table, line: Line) -> str:
    """Return the dashes of a recipe, which tell it from others of its colour."""
    return "dot" if line.is_source else DASHES[table.lines.index(line) // len(COLOURS) % len(DASHES)]


def stroke(table: Table, line: Line) -> Figure:
    """Return the line of a recipe."""
    return {"color": colour(table, line), "dash": dash(table, line), "width": 2}
