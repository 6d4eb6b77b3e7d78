"""`holdfast new`: write the first files of your own method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def new(
    _kind: Annotated[
        Literal["method"], typer.Argument(metavar="KIND", help="Write a method; docs/extending shows the others.")
    ],
    name: Annotated[str, typer.Argument(help="Name it, in lower case with underscores, e.g. margin_tent.")],
    out: Annotated[Path, typer.Option(help="Write the files to this folder; by default the current one.")] = Path(),
) -> None:
    """Write a method that runs, a test of its contracts, and a suite that compares it with source, tent and blend."""
    from holdfast.commands.new import new_method

    code, test, suite = new_method(name, out)
    typer.echo(f"method: {code}\ntest: {test}\nsuite: {suite}")
    typer.echo(f"next: change {code.name}, then: pytest {test}; holdfast bench {suite} --allow-code")
