"""`holdfast audit`: verify the audit log of a service, and say what changed, when and why."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson
from holdfast.cli.printing import print_table
from holdfast.display import WordTable


def audit(
    log: Annotated[Path, typer.Argument(help="Read this log: a --state folder, or the file audit.db in it.")],
    tenant: Annotated[str | None, typer.Option(help="Show this tenant only.")] = None,
    since: Annotated[str | None, typer.Option(help="Show decisions from this time on, e.g. 2026-11-17T08:30.")] = None,
    events: Annotated[bool, typer.Option(help="Leave out labels and batches in which nothing happened.")] = True,
    last: Annotated[int, typer.Option(min=1, help="Show this many decisions at most.")] = 50,
    head: Annotated[
        list[str] | None,
        typer.Option(
            help="Fail unless the log contains this hash, noted earlier, or ends as this file says (serve --head)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the chain of an audit log, and print what changed, when and why; exit with 1 if it was tampered with."""
    from holdfast.serve.audit import contains_hash, read_audit, verify_audit
    from holdfast.serve.state_folder import audit_logs

    start = 0.0 if since is None else datetime.fromisoformat(since).timestamp()
    paths = (audit_logs(log) or [log / "audit.db"]) if log.is_dir() else [log]
    files = [Path(one) for one in head or [] if Path(one).is_file()]
    results = {path: verify_audit(path, head=next(iter(files), None)) for path in paths}
    problems = {path: one.problem for path, one in results.items() if one.problem is not None}
    hashes = [one for one in head or [] if Path(one) not in files]
    lost = [one for one in hashes if not any(contains_hash(path, one) for path in paths)]
    problem = next(iter(problems.values()), f"no record has the hash {lost[0]}: records were removed" if lost else None)
    decisions = [
        one
        for path in paths
        for one in read_audit(path, tenant=tenant, since=start)
        if not events or one.events or one.kind not in ("batch", "feedback")
    ]
    if len(paths) > 1:  # one log for each replica
        decisions.sort(key=lambda one: one.time)
    records = sum(one.records for one in results.values())
    if as_json:
        shown = [one.to_dict() for one in decisions[-last:]]
        heads = {str(path): one.head for path, one in results.items()}
        summary = {"records": records, "head": results[paths[0]].head, "heads": heads, "problem": problem}
        typer.echo(json.dumps({**summary, "decisions": shown}))
        raise typer.Exit(1 if problem else 0)
    rows = []
    for one in decisions[-last:]:
        when = datetime.fromtimestamp(one.time, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        share = "" if one.estimate is None else f"{100 * one.estimate:.1f} %"
        gain = "" if one.gain is None else f"{100 * one.gain:+.1f}"
        state = f"{one.before[:6]} → {one.after[:6]}" if one.before != one.after else one.after[:6]
        what = ", ".join(one.events) or one.kind
        committed = "yes" if one.committed else "no"
        rows.append([when, one.tenant, str(one.batch), what, committed, share, gain, state, one.reason])
    titles = ["time (UTC)", "tenant", "batch", "what", "committed", "estimate", "gain", "state", "why"]
    print_table(WordTable("", titles, rows))
    for path, checked in results.items():
        if path in problems:
            typer.echo(f"NOT intact after {checked.records} good records of {path}: {problems[path]}")
        else:
            typer.echo(f"{checked.records} records of {path}, the chain is intact; its head is {checked.head}")
    if lost:
        typer.echo(f"NOT intact: {problem}")
    if problem is None:
        noted = " ".join(f"--head {checked.head}" for checked in results.values())
        typer.echo(f"note what comes after --head, and check it later: holdfast audit {log} {noted}")
    raise typer.Exit(1 if problem else 0)
