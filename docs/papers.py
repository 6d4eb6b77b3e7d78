"""The page that maps every table and figure of the four papers to a command and a result; see build.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
NEEDS = {"data": "needs data", "gpu": "needs data and a GPU"}
HEAD = """\
# Four papers, table by table

Every table and figure of the four papers, the command that computes it at the published size, and where a result of
this repository measures the same methods, streams and scores on smaller data and networks, which fit two cores.
`holdfast prepare SUITE --scale …` lists the data and weights of a command, and what it will cost. Where a paper and its
code differ, [this page](paper_and_code.md) says which one is followed; [the claims](claims.md) say what was confirmed.
"""


@dataclass(frozen=True)
class Jobs:
    """Jobs of a suite at a scale, at least one of which has these labels."""

    suite: str
    scale: str = "paper"
    stream: str = ""
    recipe: str = ""
    model: str = ""


@dataclass(frozen=True)
class Entry:
    """One table or figure; the fields are described in papers.yaml."""

    paper: str
    name: str
    what: str
    jobs: tuple[Jobs, ...] = ()
    shown: tuple[str, ...] = ()
    call: str = ""
    explained: str = ""
    needs: str = ""
    results: tuple[str, ...] = field(default=())

    @property
    def measured(self) -> list[str]:
        """The result files that exist."""
        return [name for name in self.results if (RESULTS / f"{name}.json").is_file()]

    @property
    def command(self) -> str:
        """What computes it, as Markdown."""
        if self.call:
            return f"`{self.call.replace(':', '.')}`"
        commands = dict.fromkeys(f"`holdfast bench {jobs.suite} --scale {jobs.scale}`" for jobs in self.jobs)
        return ", ".join(commands) or "–"

    @property
    def state(self) -> str:
        """Whether it was measured here, and what the published size needs."""
        if self.explained:
            return self.explained
        if self.call:
            return "runs anywhere"
        return f"measured here, smaller; {NEEDS[self.needs]} as published" if self.measured else NEEDS[self.needs]


def papers() -> dict[str, Any]:
    """Return the content of papers.yaml."""
    content: dict[str, Any] = yaml.safe_load((HERE / "papers.yaml").read_text())
    return content


def entries() -> Iterator[Entry]:
    """Yield every table and figure."""
    for paper, content in papers().items():
        for name, given in content["entries"].items():
            jobs = tuple(Jobs(**job) for job in given.get("jobs", []))
            lists = {key: tuple(given.get(key, ())) for key in ("shown", "results")}
            yield Entry(paper, name, **{**given, "jobs": jobs, **lists})


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for paper, content in papers().items():
        rows = [row(entry) for entry in entries() if entry.paper == paper]
        head = ["| | shows | command | state | results |", "| --- | --- | --- | --- | --- |"]
        parts.append("\n".join([f"## {content['title']}", "", *head, *rows, ""]))
    return "\n".join(parts)


def row(entry: Entry) -> str:
    """Return one line of a table."""
    results = ", ".join(f"`results/{name}.json`" for name in entry.measured) or "–"
    return f"| {entry.name} | {entry.what} | {entry.command} | {entry.state} | {results} |"
