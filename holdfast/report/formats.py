"""A table as HTML, CSV, Markdown and LaTeX; each says whether it shows error or accuracy."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

from holdfast.report.tables import Line, Table, printed

__all__ = ["caption", "to_csv", "to_html", "to_latex", "to_markdown"]

# Beyond this many domains nobody reads the columns; the mean stays, and the CSV file holds them all.
MOST_DOMAINS = 24
FEW_DOMAINS = 8  # up to here their titles stand upright
FACTS = ("seeds", "passes ×", "time ×", "resets", "skipped", "order", "recovery", "source data")
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "·": r"$\cdot$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class Cell:
    """One printed value: the best of its column, or worse than the source in it, or neither."""

    text: str
    best: bool = False
    worse: bool = False


def caption(table: Table, worse_mark: str = "grey") -> str:
    """Return what the numbers of a table are and what its marks mean."""
    answers, direction = ("wrong", "lower") if table.metric == "error" else ("correct", "higher")
    counts = [len(line.runs) for line in table.lines]
    fewest, most = min(counts), max(counts)
    number = f"{most}" if fewest == most else f"{fewest} to {most}"
    seeds = f"mean ± standard deviation over {number} seeds" if most > 1 else "one seed"
    hidden = "" if shown_domains(table) else f" The {len(table.domains)} domains have their columns in the CSV file."
    marks = f" Bold: best of its column{f'; {worse_mark}: worse than the source' if table.source else ''}."
    time = " Time ×: median step, as a multiple of the source's." if table.source else ""
    return (
        f"{table.metric.capitalize()} in %, {direction} is better: {answers} answers per hundred samples, "
        f"every sample weighs the same; {seeds}.{hidden}{marks} {protocol_sentence(table)} "
        f"Passes ×: forward and backward passes per sample, as a multiple of one forward.{time}"
    )


def protocol_sentence(table: Table) -> str:
    """Return what the protocol means, and what seeing labels was worth where they were seen."""
    protocol = str(table.protocol["protocol"])
    if protocol == "online":
        return "Protocol online: one pass, no batch comes twice."
    twice = "every set was gone through in epochs and then answered under other draws of its corruptions"
    if protocol == "offline-fixed":
        return f"Protocol offline-fixed: {twice}; no label was seen."
    gaps = [line.oracle_gap for line in table.lines if line.oracle_gap is not None and not line.is_source]
    worth = f", which was worth {fmean(gaps):+.1f} points over the last epoch" if gaps else ""
    return (
        f"Protocol offline-oracle: {twice}, by the epoch that was best by the labels of the test set{worth}: "
        "nobody who adapts in earnest has them."
    )


def to_html(table: Table) -> str:
    """Return the table as an HTML fragment: a figure, so that its caption stays in view while a wide table scrolls."""
    head = "".join(f'<th scope="col"><span>{wrappable(title)}</span></th>' for title in header(table))
    body = "\n".join(f"<tr>{html_line(cells)}</tr>" for cells in lines_of_cells(table))
    note = escape(caption(table)).replace(" ×", "&nbsp;×").replace(" %", "&nbsp;%")
    width = "many" if len(shown_domains(table)) > FEW_DOMAINS else "few"
    return (
        f'<figure class="scores {width}">\n<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>\n<figcaption>{note}</figcaption>\n</figure>"
    )


def html_line(cells: Sequence[Cell]) -> str:
    """Return the cells of one line; the first one is its heading."""
    first, *others = cells
    return f'<th scope="row">{escape(first.text)}</th>' + "".join(map(html_cell, others))


def html_cell(cell: Cell) -> str:
    """Return one value with its mark as a class."""
    mark = ' class="best"' if cell.best else ' class="worse"' if cell.worse else ""
    return f"<td{mark}>{escape(cell.text)}</td>"


def wrappable(name: str) -> str:
    """Return an escaped title that breaks after an underscore, if anywhere."""
    return escape(name).replace("_", "_<wbr>").replace(" ", "&nbsp;")


def to_csv(table: Table) -> str:
    """Return the table as CSV: every domain, at full precision."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    unit = f"{table.metric} (%)"
    scores = [f"{name} {unit}" for name in (*table.domains, "mean", "std")]
    costs = ["seeds", "passes per sample", "median step (s)", "step time (x source)", "resets", "skipped batches"]
    write(["recipe", "method", *scores, *costs, "order", "recovery", "source data"])
    for line in table.lines:
        time = table.relative_time(line)
        std = math.nan if line.std is None else line.std
        values = [*(line.scores[domain] for domain in table.domains), line.mean, std]
        seconds = [line.passes, line.step_seconds, math.nan if time is None else time]
        counts = [line.resets, line.skipped]
        numbers = [*values, len(line.runs), *seconds, *counts]
        write([line.label, line.recipe.method, *map(precise, numbers), *own_protocol(line)])
    return out.getvalue()


def precise(value: float) -> str:
    """Return a number with everything that is worth keeping; nothing for `nan`."""
    return "" if math.isnan(value) else f"{value:.10g}"


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with its caption."""
    titles = header(table)
    numbers = len(titles) - 4  # all between the recipe and its protocol: aligned to the right
    rule = ["---", *["---:"] * numbers, *["---"] * 3]
    body = [[markdown_cell(cell) for cell in cells] for cells in lines_of_cells(table)]
    rows = [[markdown_text(title) for title in titles], rule, *body]
    grid = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{markdown_text(table.title)}**\n\n{grid}\n\n{markdown_text(caption(table, 'italic'))}\n"


def markdown_cell(cell: Cell) -> str:
    """Return one value, bold or italic as it is marked."""
    mark = "**" if cell.best else "*" if cell.worse else ""
    return f"{mark}{markdown_text(cell.text)}{mark}"


def markdown_text(text: str) -> str:
    r"""Return text that Markdown shows as it is.

    >>> print(markdown_text("a|b <i> *c* gaussian_noise _d_"))
    a\|b &lt;i> \*c\* gaussian_noise \_d\_
    """
    return re.sub(r"([\\|*`\[\]]|\b_|_\b)", r"\\\1", " ".join(text.split())).replace("<", "&lt;")


def to_latex(table: Table) -> str:
    """Return the table as LaTeX, for a preamble with booktabs, graphicx and xcolor."""
    titles = header(table)
    body = "\n".join(" & ".join(map(latex_cell, cells)) + r" \\" for cells in lines_of_cells(table))
    heads = " & ".join(latex_text(title) for title in titles)
    columns = f"l{'r' * (len(titles) - 4)}lll"
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx,xcolor}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(table.title)}. {latex_text(caption(table, 'grey'))}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            rf"{heads} \\",
            r"\midrule",
            body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def latex_cell(cell: Cell) -> str:
    """Return one value, bold or grey as it is marked."""
    text = latex_text(cell.text)
    return rf"\textbf{{{text}}}" if cell.best else rf"\textcolor{{gray}}{{{text}}}" if cell.worse else text


def latex_text(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    >>> print(latex_text("50 % of gaussian_noise"))
    50 \% of gaussian\_noise
    """
    return "".join(LATEX.get(sign, sign) for sign in " ".join(text.split()))


def header(table: Table) -> list[str]:
    """Return the titles of the printed columns."""
    return ["recipe", *shown_domains(table), "mean", *FACTS]


def shown_domains(table: Table) -> Sequence[str]:
    """Return the domains that are printed as columns."""
    return table.domains if len(table.domains) <= MOST_DOMAINS else ()


def lines_of_cells(table: Table) -> list[list[Cell]]:
    """Return what is printed below the header, line by line."""
    columns = [score_cells(table, [line.scores[domain] for line in table.lines]) for domain in shown_domains(table)]
    means = score_cells(table, [line.mean for line in table.lines], [line.std for line in table.lines])
    return [
        [Cell(line.label), *(column[number] for column in columns), means[number], *map(Cell, facts(table, line))]
        for number, line in enumerate(table.lines)
    ]


def score_cells(table: Table, scores: Sequence[float], stds: Sequence[float | None] = ()) -> list[Cell]:
    """Return one column of scores with its marks; comparisons with `nan` are never true, so gaps go unmarked."""
    cells = []
    for number, score in enumerate(scores):
        std = stds[number] if stds else None
        text = printed(score) if std is None else f"{printed(score)} ± {printed(std)}"
        best = not math.isnan(score) and not any(table.better(other, score) for other in scores)
        worse = table.source is not None and table.better(scores[0], score)
        cells.append(Cell(text, best, worse))
    return cells


def facts(table: Table, line: Line) -> list[str]:
    """Return what a line says beside its scores."""
    time = table.relative_time(line)
    costs = [str(len(line.runs)), f"{line.passes:.2f}", "–" if time is None else f"{time:.2f}"]
    counts = [f"{count:.1f}".removesuffix(".0") for count in (line.resets, line.skipped)]
    return [*costs, *counts, *own_protocol(line)]


def own_protocol(line: Line) -> list[str]:
    """Return the protocol fields that a recipe brings along, in the order of their columns."""
    return [line.protocol(field) for field in ("order", "recovery", "source_data")]
