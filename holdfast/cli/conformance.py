"""`holdfast conformance`: compare methods with their official implementations."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from holdfast.cli.options import AsJson, Device
from holdfast.cli.printing import console, in_terminal
from holdfast.display import WordTable


def conformance(
    golden: Annotated[Path, typer.Option(help="Read the recorded traces from this folder.")] = Path(
        "tests/conformance/golden"
    ),
    only: Annotated[list[str] | None, typer.Option(help="Compare this method or recipe only; may be repeated.")] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare every method with recorded outputs of its official implementation."""
    from holdfast.conformance import compare_all
    from holdfast.machine.devices import resolve_device

    table = in_terminal(WordTable("", ["method", "trace", "stream", "reference", "max |Δ|", "allowed", "result"], []))
    outcomes = []
    with Live(table, console=console) if not as_json else nullcontext():
        for outcome in compare_all(golden, only, device=resolve_device(device or "cpu")):
            outcomes.append(outcome)
            table.add_row(*outcome.in_words())
    if as_json:
        typer.echo(json.dumps([outcome.to_dict() for outcome in outcomes]))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        notes = "; ".join(f"{outcome.case.trace} ({outcome.stream}): {outcome.note}" for outcome in failed)
        raise RuntimeError(f"{len(failed)} of {len(outcomes)} comparisons failed: {notes}")
