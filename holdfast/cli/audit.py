"""`holdfast audit`: verify the audit log of a service, and say what changed, when and why."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson
from holdfast.cli.printing import console, plain_table

__all__ = ["audit"]


def audit(
    log: Annotated[Path, typer.Argument(help="Read this log: the file audit.db of a --state folder, or the folder.")],
    tenant: Annotated[str | None, typer.Option(help="Show this tenant only.")] = None,
    since: Annotated[str | None, typer.Option(help="Show decisions from this time on, e.g. 2026-11-17T08:30.")] = None,
    events: Annotated[bool, typer.Option(help="Leave out batches in which nothing unusual happened.")] = True,
    last: Annotated[int, typer.Option(min=1, help="Show this many decisions at most.")] = 50,
    head: Annotated[str | None, typer.Option(help="Fail unless the log contains this hash, noted earlier.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the chain of an audit log, and print what changed, when and why; exit with 1 if it was tampered with."""
    from holdfast.serve.audit import contains_hash, read_audit, verify_audit

    path = log / "audit.db" if log.is_dir() else log
    found = verify_audit(path)
    problem = found.problem
    if problem is None and head is not None and not contains_hash(path, head):
        problem = f"no record has the hash {head}: records were removed"
    start = 0.0 if since is None else datetime.fromisoformat(since).timestamp()
    decisions = [
        one for one in read_audit(path, tenant=tenant, since=start) if not events or one.events or one.kind != "batch"
    ]
    if as_json:
        shown = [one.to_dict() for one in decisions[-last:]]
        typer.echo(json.dumps({"records": found.records, "head": found.head, "problem": problem, "decisions": shown}))
        raise typer.Exit(1 if problem else 0)
    table = plain_table("time (UTC)", "tenant", "batch", "what", "committed", "estimate", "gain", "state", "why")
    table.columns[0].no_wrap = True
    for one in decisions[-last:]:
        when = datetime.fromtimestamp(one.time, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        share = "" if one.estimate is None else f"{100 * one.estimate:.1f} %"
        gain = "" if one.gain is None else f"{100 * one.gain:+.1f}"
        state = f"{one.before[:6]} → {one.after[:6]}" if one.before != one.after else one.after[:6]
        what = ", ".join(one.events) or one.kind
        table.add_row(
            when, one.tenant, str(one.batch), what, "yes" if one.committed else "no", share, gain, state, one.reason
        )
    console.print(table)
    if problem is None:
        typer.echo(f"{found.records} records, the chain is intact; its head is {found.head}: note it, and check it")
        typer.echo(f"later with holdfast audit {log} --head {found.head}")
    else:
        typer.echo(f"NOT intact after {found.records} good records: {problem}")
    raise typer.Exit(1 if problem else 0)
