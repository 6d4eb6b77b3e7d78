"""`holdfast conformance`: compare methods with their official implementations."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from holdfast.cli.options import AsJson, Device
from holdfast.cli.printing import console, plain_table

__all__ = ["conformance"]


def conformance(
    golden: Annotated[Path, typer.Option(help="Read the recorded traces from this folder.")] = Path(
        "tests/conformance/golden"
    ),
    only: Annotated[list[str] | None, typer.Option(help="Compare this method or recipe only; may be repeated.")] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare every method with recorded outputs of its official implementation."""
    from holdfast.conformance import judge_all
    from holdfast.machine.devices import resolve_device

    table = plain_table("method", "trace", "stream", "reference", "max |Δ|", "allowed", "verdict")
    verdicts = []
    judged = judge_all(golden, only, device=resolve_device(device or "cpu"))
    with Live(table, console=console) if not as_json else nullcontext():
        for verdict in judged:
            verdicts.append(verdict)
            table.add_row(*verdict.in_words())
    if as_json:
        typer.echo(json.dumps([verdict.to_dict() for verdict in verdicts]))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed:
        notes = "; ".join(f"{verdict.case.trace} ({verdict.stream}): {verdict.note}" for verdict in failed)
        raise RuntimeError(f"{len(failed)} of {len(verdicts)} comparisons failed: {notes}")
