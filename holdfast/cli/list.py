"""`holdfast list`: list the catalogue."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from holdfast.cli import completing
from holdfast.cli.options import AsJson
from holdfast.cli.printing import print_table
from holdfast.display import WordTable
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
        rows = [[entry.name, entry.summary, entry.citation] for entry in entries]
        print_table(WordTable(room, ["name", "summary", "citation"], rows))
