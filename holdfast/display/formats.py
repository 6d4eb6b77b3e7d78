"""A table of cells as HTML, CSV, Markdown and LaTeX: one writer for each."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from html import escape

from holdfast.display.cells import WORSE, Cell, CellColumn, CellTable, Tabular, slug

FORMULA = tuple("=+-@\t\r")  # with which a formula begins
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


def _in_print(table: CellTable) -> list[CellColumn]:
    return [column for column in table.columns if column.title is not None]


def _rows(columns: Sequence[CellColumn]) -> Iterator[tuple[Cell, ...]]:
    return zip(*(column.cells for column in columns), strict=True)


def to_html(table: Tabular) -> str:
    """Return the table as an HTML fragment: a figure, so that its caption stays in view while a wide table scrolls."""
    made = table.cells()
    columns = _in_print(made)
    scores = made.css.startswith("scores")  # long titles and captions, which break at chosen signs only
    end = "\n" if scores else ""
    titles = [str(column.title) for column in columns]
    shown = [f"<span>{_breakable(title)}</span>" for title in titles] if scores else map(escape, titles)
    heads = "".join(
        f'<th scope="col"{_css_class(column.css)}>{title}</th>' for column, title in zip(columns, shown, strict=True)
    )
    spans, above = _html_groups(made)
    body = end.join(f"<tr>{_html_row(columns, row)}</tr>" for row in _rows(columns))
    said = [escape(text) for text in (made.caption, made.note) if text]
    if scores:
        said = [text.replace(" ×", "&nbsp;×").replace(" %", "&nbsp;%") for text in said]
    caption = f"{end}<figcaption>{'<br>'.join(said)}</figcaption>" if said else ""
    return (
        f'<figure class="{made.css}">{end}<div class="scroll"><table>{end}{spans}<thead>{above}<tr>{heads}</tr></thead>'
        f"{end}<tbody>{end}{body}{end}</tbody>{end}</table></div>{caption}{end}</figure>"
    )


def _html_groups(table: CellTable) -> tuple[str, str]:
    """Return the elements that hold the columns of a group together, and the line with the names of the groups."""
    if not table.groups:
        return "", ""
    spans = "<colgroup></colgroup>" + "".join(f'<colgroup span="{width}"></colgroup>' for _, width in table.groups)
    names = "".join(f'<th scope="colgroup" colspan="{width}">{escape(name)}</th>' for name, width in table.groups)
    return spans, f'<tr class="groups"><th></th>{names}</tr>' if any(name for name, _ in table.groups) else ""


def _html_row(columns: Sequence[CellColumn], row: Sequence[Cell]) -> str:
    """Return the cells of one line, with column and emphasis as classes; the first one is its heading."""
    (first, heading), *others = zip(columns, row, strict=True)
    values = (f"<td{_css_class(column.css, cell.emphasis)}>{escape(cell.text)}</td>" for column, cell in others)
    return f'<th scope="row"{_css_class(first.css)}>{escape(heading.text)}</th>{"".join(values)}'


def _css_class(*names: str) -> str:
    """Return the class attribute of an element, nothing without names.

    >>> _css_class("mean", "best"), _css_class("", "")
    (' class="mean best"', '')
    """
    given = " ".join(filter(None, names))
    return f' class="{given}"' if given else ""


def _breakable(title: str) -> str:
    """Return an escaped title that breaks after an underscore, if anywhere."""
    return escape(title).replace("_", "_<wbr>").replace(" ", "&nbsp;")


def to_csv(table: Tabular) -> str:
    """Return the table as CSV: every column, at full precision."""
    made = table.cells()
    columns = [column for column in made.columns if column.csv_title is not None]
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write([_inert(str(column.csv_title)) for column in columns])
    for row in _rows(columns):
        write([_inert(_precise(cell.value, made.digits)) for cell in row])
    return out.getvalue()


def _precise(value: str | float, digits: int) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def _inert(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> [_inert(text) for text in ("=HYPERLINK(x)", "tent", "-0.5", "+1.2 points")]
    ["'=HYPERLINK(x)", 'tent', '-0.5', "'+1.2 points"]
    """
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text[:1] in FORMULA else text
    return text  # a number


def to_markdown(table: Tabular) -> str:
    """Return title, table with aligned columns, and note as Markdown."""
    made = table.cells()
    columns = _in_print(made)
    titles = [markdown_text(str(column.title)) for column in columns]
    grid = _aligned(columns, [titles, *([_markdown_cell(cell) for cell in row] for row in _rows(columns))])
    title = markdown_text(made.title)
    heading = f"**{title}**" if made.css.startswith("scores") else f"### {title}"
    note = markdown_text(_joined(made.caption, made.note, made.warning).replace(WORSE, WORSE.replace("grey", "italic")))
    return f"{heading}\n\n{grid}\n" + (f"\n{note}\n" if note else "")


words_to_markdown = to_markdown
"""The same as `to_markdown`, for tables of words."""


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _markdown_cell(cell: Cell) -> str:
    mark = {"": "", "best": "**", "worse": "*"}[cell.emphasis]
    return f"{mark}{markdown_text(cell.text)}{mark}"


def markdown_text(text: str) -> str:
    r"""Return text that Markdown shows as it is.

    >>> print(markdown_text("a|b <i> *c* gaussian_noise _d_"))
    a\|b &lt;i> \*c\* gaussian_noise \_d\_
    """
    return re.sub(r"([\\|*`\[\]]|\b_|_\b)", r"\\\1", " ".join(text.split())).replace("<", "&lt;")


def _aligned(columns: Sequence[CellColumn], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of escaped text, the first of them titles, as a Markdown table whose columns line up.

    >>> columns = [CellColumn("recipe", None, [], align="left"), CellColumn("error", None, [])]
    >>> print(_aligned(columns, [["recipe", "error"], ["tent", "5.1"]]))
    | recipe | error |
    | ------ | ----: |
    | tent   |   5.1 |
    """
    lined_up = []
    for column, texts in zip(columns, zip(*rows, strict=True), strict=True):
        width = max(3, *map(len, texts))
        side, rule = (str.ljust, "-" * width) if column.align == "left" else (str.rjust, "-" * (width - 1) + ":")
        title, *others = (side(text, width) for text in texts)
        lined_up.append([title, rule, *others])
    return "\n".join(f"| {' | '.join(row)} |" for row in zip(*lined_up, strict=True))


def to_latex(table: Tabular) -> str:
    """Return the table as LaTeX, groups above their columns, for a preamble with booktabs, graphicx and xcolor."""
    made = table.cells()
    columns = _in_print(made)
    spans, rules, first, below = [], [], 2, _joined(made.note, made.warning)
    for group, width in made.groups:
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex_text(group)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}" if group else "")
        first += width
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx,xcolor}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex_text(made.title)}. {_latex_text(made.caption or below)}}}",
            rf"\label{{tab:{made.name or slug(made.title)}}}",
            r"\resizebox{\linewidth}{!}{%",
            rf"\begin{{tabular}}{{{''.join(column.align[0] for column in columns)}}}",
            r"\toprule",
            *([rf" & {' & '.join(spans)} \\", "".join(rules)] if any(rules) else []),
            " & ".join(_latex_text(str(column.title)) for column in columns) + r" \\",
            r"\midrule",
            *(" & ".join(map(_latex_cell, row)) + r" \\" for row in _rows(columns)),
            r"\bottomrule",
            r"\end{tabular}}",
            *([rf"\par\smallskip\footnotesize {_latex_text(below)}"] if made.caption else []),
            r"\end{table}",
            "",
        ]
    )


def _latex_cell(cell: Cell) -> str:
    before, after = {"": ("", ""), "best": (r"\textbf{", "}"), "worse": (r"\textcolor{gray}{", "}")}[cell.emphasis]
    return before + _latex_text(cell.text) + after


def _latex_text(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    >>> print(_latex_text("50 % of gaussian_noise"))
    50 \% of gaussian\_noise
    """
    return "".join(LATEX.get(sign, sign) for sign in " ".join(text.split()))
