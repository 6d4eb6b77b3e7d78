"""Before → after: the score of each criterion without and with adaptation, and its cost, as DHAuDS reports it.

Shao et al., arXiv 2511.18421, Tables 5 to 8 and 10. Scores are shares, as published there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from holdfast.display.cells import CellTable, WordTable, word_columns
from holdfast.report import metrics
from holdfast.report.as_published import published_rows
from holdfast.report.runs import RunRecord
from holdfast.report.scores import SCORES
from holdfast.report.tables import Line, Table, grouped

PUBLISHED_SCORE = {"us8": "macro_f1", "sc2": "accuracy", "vs": "accuracy", "rs": "macro_roc_auc"}

NOTE = "Scores of the source, then of the adapted network, on the same clips; mean over the seeds."
PUBLISHED_NOTE = " Published: for the same network, score and number of clips, with the epoch chosen by labels."
COST_NOTE = (
    "Gains over the criteria of one suite, and the number of criteria that improved. Time per clip includes adaptation "
    "and prediction; the peak is that of the whole process. Best − last: gain in accuracy from choosing the epoch by "
    "labels, in points."
)


@dataclass(frozen=True)
class Gain:
    """One criterion before and after adaptation, with the published scores of the same measurement, if any."""

    criterion: str
    before: float
    after: float
    published: tuple[float, float] | None = None

    @property
    def difference(self) -> float:
        """The gain from adapting."""
        return self.after - self.before


@dataclass(frozen=True)
class Gains:
    """The gains of one recipe in all criteria of a suite, model and protocol, in one score."""

    title: str
    recipe: str
    score: str
    rows: Sequence[Gain]
    milliseconds_per_clip: float  # adaptation included
    peak_mib: float | None
    oracle_gap: float | None  # points of accuracy

    @property
    def extent(self) -> tuple[float, float, float]:
        """The least, the largest and the mean gain."""
        gains = [row.difference for row in self.rows]
        return min(gains), max(gains), fmean(gains)

    @property
    def improved(self) -> int:
        """The number of criteria in which adapting is better than not adapting."""
        return sum(row.difference > 1e-9 for row in self.rows)  # ignore rounding


def make_gains(tables: Sequence[Table]) -> list[Gains]:
    """Return the gains of every recipe over the source, for criteria of DHAuDS and offline sets."""
    chosen = [
        table
        for table in tables
        if table.source is not None
        and (table.manifest.stream.name == "dhauds" or table.protocol["protocol"].startswith("offline"))
    ]
    gains = []
    for group in grouped(chosen, lambda table: _title(table) + table.protocol_but_stream):
        labels = dict.fromkeys(line.recipe.label for table in group for line in table.lines if not line.is_source)
        for label in labels:
            gains += [entry for score in SCORES if (entry := _gains(group, label, score)) is not None]
    return gains


def _title(table: Table) -> str:
    """Return suite, model and protocol, including the default protocol, since gains depend on it."""
    return f"{table.suite_and_model} · {table.protocol['protocol']}"


def _gains(tables: Sequence[Table], label: str, score: str) -> Gains | None:
    rows, lines = [], []
    for table in tables:
        line = next((line for line in table.lines if line.recipe.label == label), None)
        if line is None or table.source is None:
            continue
        lines.append(line)
        before, after = (_scores(given, score) for given in (table.source, line))
        stream = table.manifest.stream.label
        for domain in (domain for domain in before if domain in after):
            criterion = stream if len(table.domains) == 1 else f"{stream} {domain}"
            published = _published_before_after(line.runs[0], stream, score)
            rows.append(Gain(criterion, before[domain], after[domain], published))
    if not rows:
        return None
    gaps = [line.oracle_gap for line in lines if line.oracle_gap is not None]
    runs = [run for line in lines for run in line.runs]
    seconds = sum(float(run.rows.step_seconds.sum()) for run in runs) / sum(run.samples for run in runs)
    peaks = [run.peak_mib for run in runs if run.peak_mib is not None]
    return Gains(
        _title(tables[0]),
        label,
        score,
        rows,
        1000 * seconds,
        max(peaks, default=None),
        fmean(gaps) if gaps else None,
    )


def _scores(line: Line, score: str) -> dict[str, float]:
    """Return the score of every domain that has it, mean over the seeds."""
    by_domain: dict[str, list[float]] = {}
    for run in line.runs:
        for domain, value in _scores_of(run, score):
            by_domain.setdefault(domain, []).append(value)
    return {domain: fmean(values) for domain, values in by_domain.items()}


def _scores_of(run: RunRecord, score: str) -> Iterator[tuple[str, float]]:
    if score == "accuracy":
        yield from metrics.domain_accuracy(run.rows).items()
        return
    for run_set in run.sets:
        value = run_set.get("scores", {}).get(score)
        if value is not None and len(run_set["domains"]) == 1:
            yield run_set["domains"][0], value


def _published_before_after(run: RunRecord, stream: str, score: str) -> tuple[float, float] | None:
    """Return the published scores for the same network, criterion, score, recipe and number of clips."""
    publication = run.manifest.published
    oracle = run.manifest.protocol["protocol"].startswith("offline-oracle")
    recipe = run.manifest.recipe
    as_published = "as published" in recipe.label or (recipe.label == "conmix" and recipe.preset)
    if not oracle or publication is None or publication.deviations or not as_published:
        return None
    for row in published_rows("published_dhauds.csv"):
        named = f"{row['dataset']}-{row['criterion']}" == stream
        if named and int(row["parameters"]) == run.manifest.model.parameters and int(row["samples"]) <= run.samples:
            if score == "silhouette" and row["silhouette_before"]:
                return float(row["silhouette_before"]), float(row["silhouette_after"])
            if score == PUBLISHED_SCORE[row["dataset"]]:
                return float(row["before"]), float(row["after"])
    return None


def all_gains(gains: Sequence[Gains]) -> CellTable:
    """Return every gain at full precision, for the CSV file."""
    titles = ["suite, model and protocol", "recipe", "score", "criterion"]
    titles += ["before", "after", "gain", "published before", "published after"]
    rows: list[list[str | float]] = []
    for entry in gains:
        for row in entry.rows:
            named = entry.title, entry.recipe, SCORES[entry.score], row.criterion
            rows.append([*named, row.before, row.after, row.difference, *(row.published or (math.nan, math.nan))])
    return CellTable("Before → after", word_columns(titles, rows), digits=6)


def criteria_tables(gains: Sequence[Gains]) -> list[WordTable]:
    """Return a table for each suite, model, protocol and score: a line for each criterion, a column for each recipe."""
    titles = grouped(gains, lambda entry: entry.title)
    return [_criteria_table(entries) for title in titles for entries in grouped(title, lambda entry: entry.score)]


def _criteria_table(gains: Sequence[Gains]) -> WordTable:
    by_recipe = {entry.recipe: {row.criterion: gain_in_words(row) for row in entry.rows} for entry in gains}
    criteria = dict.fromkeys(row.criterion for entry in gains for row in entry.rows)
    rows = [[name, *(gained.get(name, "–") for gained in by_recipe.values())] for name in criteria]
    published = any(row.published is not None for entry in gains for row in entry.rows)
    title = f"{gains[0].title}: {SCORES[gains[0].score]}"
    return WordTable(title, ["criterion", *by_recipe], rows, NOTE + (PUBLISHED_NOTE if published else ""))


def gain_in_words(gain: Gain) -> str:
    """Return a gain as DHAuDS prints it.

    >>> gain_in_words(Gain("WHN-L1", 0.6201, 0.6756, (0.62, 0.67)))
    '0.6201 → 0.6756 (+0.0555), published 0.6200 → 0.6700'
    """
    own = f"{gain.before:.4f} → {gain.after:.4f} ({gain.difference:+.4f})"
    return own if gain.published is None else f"{own}, published {gain.published[0]:.4f} → {gain.published[1]:.4f}"


def cost_table(gains: Sequence[Gains]) -> WordTable:
    """Return the extent of the gains of each recipe, and what they cost."""
    titles = ["suite, model, protocol", "recipe", "score", "improved", "least gain", "largest", "mean"]
    titles += ["ms per clip", "peak MiB", "best − last (points)"]
    rows = [
        [
            *(entry.title, entry.recipe, SCORES[entry.score]),
            f"{entry.improved} of {len(entry.rows)}",
            *(f"{gain:+.4f}" for gain in entry.extent),
            f"{entry.milliseconds_per_clip:.1f}",
            "–" if entry.peak_mib is None else f"{entry.peak_mib:,.0f}",
            "–" if entry.oracle_gap is None else f"{entry.oracle_gap:+.2f}",
        ]
        for entry in gains
    ]
    return WordTable("Extent and cost", titles, rows, COST_NOTE)
