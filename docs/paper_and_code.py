"""The page on differences between papers and their code, from holdfast/report/paper_and_code.yaml; see build.py."""

from __future__ import annotations

from itertools import groupby

from holdfast.report.paper_and_code import Difference, differences

FOLLOWS = {"code": "the code", "paper": "the paper", "same": "both", "ours": "neither"}
HEAD = """\
# Where papers and their code differ

Published numbers come from code, and code does not always do what its paper says. By default holdfast follows the
official code; the column *followed* says so, or that it follows the paper. The next column is the option for the other,
and the last says where the difference matters, with measurements where there are any. A report calls neither side a
deviation where both could be behind a published number.

This page is written by `docs/build.py` from `holdfast/report/paper_and_code.yaml`; a test runs every option on a small
network and checks that it changes the result.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for source, group in groupby(differences(), lambda difference: difference.source):
        rows = [row(number, difference) for number, difference in enumerate(group, 1)]
        head = "| | topic | paper | code | followed | for the other | where it matters |"
        parts.append("\n".join([f"## {source}", "", head, "| --- | --- | --- | --- | --- | --- | --- |", *rows, ""]))
    return "\n".join(parts)


def row(number: int, difference: Difference) -> str:
    """Return one line of a table."""
    option = f"`{difference.other}`" if difference.other else f"none: {difference.none}"
    cells = [
        str(number),
        difference.topic,
        difference.paper,
        difference.code,
        FOLLOWS[difference.follows],
        option,
        difference.matters,
    ]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
