"""One table of cells in every format: the same cells, emphasised, noted and escaped as each format asks for."""

from __future__ import annotations

import math

import pytest

from holdfast.display.cells import CellColumn, CellTable
from holdfast.report import Cell, WordTable, to_csv, to_html, to_latex, to_markdown, words_to_markdown


@pytest.fixture
def table() -> CellTable:
    """Two recipes with a gap, a published number, and a column that stands in the CSV file only."""
    names = [Cell("a_b <i>"), Cell("=c|d")]
    scores = [Cell(20.04, 1.26, "best", "19.8"), Cell(51.25, emphasis="worse")]
    columns = [
        CellColumn("recipe", "recipe", names, align="left"),
        CellColumn("mean", "mean error (%)", scores),
        CellColumn("gain", None, [Cell(3.04, form="+.1f"), Cell(math.nan)]),
        CellColumn(None, "published (%)", [Cell(19.8), Cell(math.nan)]),
    ]
    note = "Bold: best; grey: worse than the source."
    return CellTable("Few", columns, note, "Few samples.", css="grid", groups=[("error", 1), ("", 1)], digits=4)


def test_html_has_groups_emphasis_and_the_note(table: CellTable) -> None:
    html = to_html(table)
    assert '<tr class="groups"><th></th><th scope="colgroup" colspan="1">error</th>' in html
    assert (
        '<tr><th scope="row">a_b &lt;i&gt;</th><td class="best">20.0 ± 1.3 (19.8)</td><td>+3.0</td></tr>'
        '<tr><th scope="row">=c|d</th><td class="worse">51.2</td><td>–</td></tr>'
    ) in html
    assert html.endswith("<figcaption>Bold: best; grey: worse than the source.</figcaption></figure>")


def test_csv_has_numbers_at_full_precision_and_no_formula(table: CellTable) -> None:
    assert to_csv(table).splitlines() == ["recipe,mean error (%),published (%)", "a_b <i>,20.04,19.8", "'=c|d,51.25,"]


def test_markdown_lines_up_and_has_italics_for_grey(table: CellTable) -> None:
    assert to_markdown(table).splitlines() == [
        "### Few",
        "",
        "| recipe     |                  mean | gain |",
        "| ---------- | --------------------: | ---: |",
        "| a_b &lt;i> | **20.0 ± 1.3 (19.8)** | +3.0 |",
        r"| =c\|d      |                *51.2* |    – |",
        "",
        "Bold: best; italic: worse than the source. Few samples.",
    ]


def test_latex_has_groups_emphasis_and_the_warning(table: CellTable) -> None:
    lines = to_latex(table).splitlines()
    assert r"\caption{Few. Bold: best; grey: worse than the source. Few samples.}" in lines
    assert r"\begin{tabular}{lrr}" in lines
    assert lines[8:10] == [r" & \multicolumn{1}{c}{error} & \multicolumn{1}{c}{} \\", r"\cmidrule(lr){2-2}"]
    assert r"a\_b \textless{}i\textgreater{} & \textbf{20.0 $\pm$ 1.3 (19.8)} & +3.0 \\" in lines
    assert r"=c|d & \textcolor{gray}{51.2} & -- \\" in lines


def test_a_table_of_words_is_a_table_of_cells() -> None:
    table = WordTable("Few", ["recipe", "missed"], [["*tent*", "1 of 2"]])
    assert words_to_markdown(table).splitlines()[-1] == r"| \*tent\* | 1 of 2 |"
    assert to_csv(table) == "recipe,missed\n*tent*,1 of 2\n"
    assert to_html(table).startswith('<figure class="words"><div class="scroll"><table><thead><tr><th scope="col">rec')
