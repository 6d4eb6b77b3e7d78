"""A table as HTML, CSV, Markdown and LaTeX; each states whether it shows error or accuracy."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from html import escape
from statistics import fmean

from holdfast.report.columns import FEW_DOMAINS, Cell, Column, cells_of, columns_of, domains_shown, printed_columns
from holdfast.report.setting import smoke
from holdfast.report.tables import Table, oracle_score
from holdfast.report.words import aligned, csv_writer, slug

__all__ = ["caption", "to_csv", "to_html", "to_latex", "to_markdown"]

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


def caption(table: Table, worse_mark: str = "grey") -> str:
    """Return the caption of a table: its numbers, marks and protocol."""
    answers, direction = ("wrong", "lower") if table.metric == "error" else ("correct", "higher")
    counts = [len(line.runs) for line in table.lines]
    fewest, most = min(counts), max(counts)
    number = f"{most}" if fewest == most else f"{fewest} to {most}"
    seeds = f"mean ± standard deviation over {number} seeds" if most > 1 else "one seed"
    hidden = "" if domains_shown(table) else f" The {len(table.domains)} domains have their columns in the CSV file."
    tied = ", and every mean that cannot be told from the best" if len(table.leading) > 1 else ""
    marks = f" Bold: best of its column{tied}{f'; {worse_mark}: worse than the source' if table.source else ''}."
    words = " A recipe is a method with its recovery; source is the network exactly as given." if table.source else ""
    time = " Time ×: median step, as a multiple of the source's." if table.source else ""
    watched = ", with those of its estimates" if table.runs[0].rows.estimates else ""
    return (
        f"{table.metric.capitalize()} in %, {direction} is better: {answers} predictions per hundred samples, "
        f"equal weight for each sample; {seeds}.{hidden}{marks}{words} {protocol_sentence(table)} "
        f"Passes ×: forward and backward passes per sample{watched}, as a multiple of one forward.{time}"
    )


def _marked(table: Table, worse_mark: str) -> str:
    """Return the caption for files, which are read without the page: it says when runs are those of a smoke test."""
    return f"{caption(table, worse_mark)} {smoke(table)}".rstrip()


def protocol_sentence(table: Table) -> str:
    """Return what the protocol means, and the gain from using labels if it uses them."""
    protocol = str(table.protocol["protocol"])
    if protocol == "online":
        return "Protocol online: one pass, each batch once."
    twice = "every set was adapted to for several epochs, then predicted under new draws of its corruptions"
    if protocol == "offline-fixed":
        return f"Protocol offline-fixed: {twice}; no label was used."
    gaps = [line.oracle_gap for line in table.lines if line.oracle_gap is not None and not line.is_source]
    worth = f", a gain of {fmean(gaps):+.1f} points over the last epoch" if gaps else ""
    score = oracle_score(table) or "accuracy"
    return (
        f"Protocol offline-oracle: {twice}, by the epoch with the best {score} on test labels{worth}; "
        "test labels are not available in deployment."
    )


def to_html(table: Table) -> str:
    """Return the table as an HTML fragment: a figure, so that its caption stays in view while a wide table scrolls."""
    columns = _telling_columns(table)
    head = "".join(
        f'<th scope="col"{css_class(column.css)}><span>{wrappable(str(column.title))}</span></th>' for column in columns
    )
    cells = zip(*(cells_of(table, column) for column in columns), strict=True)
    body = "\n".join(f"<tr>{html_line(columns, line)}</tr>" for line in cells)
    note = escape(caption(table)).replace(" ×", "&nbsp;×").replace(" %", "&nbsp;%")
    width = "many" if len(domains_shown(table)) > FEW_DOMAINS else "few"
    return (
        f'<figure class="scores {width}">\n<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>\n<figcaption>{note}</figcaption>\n</figure>"
    )


def html_line(columns: Sequence[Column], cells: Sequence[Cell]) -> str:
    """Return the cells of one line; the first one is its heading."""
    heading = f'<th scope="row"{css_class(columns[0].css)}>{escape(cells[0].text)}</th>'
    others = zip(columns[1:], cells[1:], strict=True)
    return heading + "".join(html_cell(cell, column.css) for column, cell in others)


def html_cell(cell: Cell, css: str = "") -> str:
    """Return one value, with its column and its mark as classes."""
    mark = "best" if cell.best else "worse" if cell.worse else ""
    return f"<td{css_class(css, mark)}>{escape(cell.text)}</td>"


def css_class(*names: str) -> str:
    """Return the class attribute of an element, nothing without names.

    >>> css_class("mean", "best"), css_class("", "")
    (' class="mean best"', '')
    """
    given = " ".join(filter(None, names))
    return f' class="{given}"' if given else ""


def wrappable(name: str) -> str:
    """Return an escaped title that breaks after an underscore, if anywhere."""
    return escape(name).replace("_", "_<wbr>").replace(" ", "&nbsp;")


def to_csv(table: Table) -> str:
    """Return the table as CSV: every domain, at full precision."""
    columns = [column for column in columns_of(table) if column.csv_title is not None]
    out = io.StringIO()
    rows = ([precise(column.value(line)) for column in columns] for line in table.lines)
    for cells in ([str(column.csv_title) for column in columns], *rows):
        csv_writer(out)(cells)
    return out.getvalue()


def precise(value: str | float) -> str:
    """Return a number with ten digits, an empty text for `nan`."""
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.10g}"


def to_markdown(table: Table) -> str:
    """Return the table as Markdown with aligned columns, without those of equal values, and its caption."""
    columns = _telling_columns(table)
    cells = zip(*(cells_of(table, column) for column in columns), strict=True)
    rows = [
        [markdown_text(str(column.title)) for column in columns],
        *(list(map(markdown_cell, line)) for line in cells),
    ]
    grid = aligned(rows, [column.align for column in columns])
    return f"**{markdown_text(table.title)}**\n\n{grid}\n\n{markdown_text(_marked(table, 'italic'))}\n"


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
    """Return the table as LaTeX, for a preamble with booktabs, graphicx and xcolor, without columns of equal values."""
    columns = _telling_columns(table)
    cells = zip(*(cells_of(table, column) for column in columns), strict=True)
    body = "\n".join(" & ".join(map(latex_cell, line)) + r" \\" for line in cells)
    heads = " & ".join(latex_text(str(column.title)) for column in columns)
    sides = "".join(column.align[0] for column in columns)
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx,xcolor}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(table.title)}. {latex_text(_marked(table, 'grey'))}}}",
            rf"\label{{tab:{slug(table.title)}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{{sides}}}",
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


def _telling_columns(table: Table) -> list[Column]:
    """Return the scores, and the other printed columns in which recipes differ."""
    columns = printed_columns(table)
    told = [column.ranked or len({column.printed(line) for line in table.lines}) > 1 for column in columns]
    return [column for column, tells in zip(columns, told, strict=True) if tells or column.key == "recipe"]


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
