"""`holdfast compare`: compare runs pair by pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson

__all__ = ["compare"]


def compare(
    a: Annotated[Path, typer.Argument(help="A run, or a folder of runs.")],
    b: Annotated[Path, typer.Argument(help="The run, or folder of runs, to compare it with.")],
    allow: Annotated[
        list[str] | None, typer.Option(help="Allow this protocol field to differ, e.g. recovery; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs pair by pair; runs with different protocols are refused, naming the field that differs."""
    from holdfast.report import compare as compare_runs

    comparison = compare_runs(a, b, allow=allow or ())
    typer.echo(json.dumps(comparison.to_dict()) if as_json else comparison.to_markdown())
