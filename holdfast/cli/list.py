"""`holdfast list`: list the catalogue."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from holdfast.cli import completing
from holdfast.cli.options import AsJson
from holdfast.cli.printing import console
from holdfast.registry import UnknownNameError, nearest


def list(  # noqa: A001
    what: Annotated[
        str,
        typer.Argument(
            help="methods, recoveries, estimators, corruptions, streams, suites, models or data; by default all.",
            autocompletion=completing.rooms,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List name, summary and citation of everything in the package."""
    from holdfast.commands.catalogue import catalogue

    rooms = catalogue()
    if what and what not in rooms:
        raise UnknownNameError(f"unknown list {what!r}; {nearest(what, rooms)}")
    chosen = {what: rooms[what]} if what else rooms
    if as_json:
        plain = {room: [vars(entry) for entry in entries] for room, entries in chosen.items()}
        typer.echo(json.dumps(plain[what] if what else plain))
        return
    for room, entries in chosen.items():
        table = Table(title=room, title_justify="left", box=None, pad_edge=False)
        for heading in ("name", "summary", "citation"):
            table.add_column(heading, overflow="fold")
        for entry in entries:
            table.add_row(entry.name, entry.summary, entry.citation)
        console.print(table, "")
