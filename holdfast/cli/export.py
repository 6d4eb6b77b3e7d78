"""`holdfast export`: write the streams of a suite as WebDataset shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AllowCode, AsJson, Scale, Settings, SuiteName, parse_settings


def export(
    suite: SuiteName,
    out: Annotated[Path, typer.Option("--out", help="Write the shards of each stream to a folder in this one.")],
    stream: Annotated[
        str | None, typer.Option(help="Export the streams with this label only; by default all of the suite.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Render in this many processes; the files do not depend on it.")
    ] = 1,
    shard_images: Annotated[int, typer.Option(min=1, help="Put at least this many images into a shard.")] = 25_000,
    part: Annotated[
        str, typer.Option(help="Write one part of the shards, e.g. 3/8 as the third of eight jobs on a shared folder.")
    ] = "1/1",
    scale: Scale = None,
    settings: Settings = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Write the streams of a suite as WebDataset shards; existing shards are kept, so that an export resumes."""
    from holdfast.benchmark import load_suite, suite_names
    from holdfast.benchmark.building import build_stream
    from holdfast.benchmark.foreign_code import admit_code
    from holdfast.benchmark.preparation import check_ready
    from holdfast.models import MODELS
    from holdfast.streams import export_shards

    jobs = load_suite(suite, parse_settings(settings), scale=scale, allow_code=allow_code).jobs()
    admit_code(jobs, suite, allow_code or suite in suite_names())
    chosen = {(job.stream.label, job.model.label, job.seed): job for job in jobs if stream in (None, job.stream.label)}
    if not chosen:
        labels = ", ".join(dict.fromkeys(job.stream.label for job in jobs))
        raise ValueError(f"{suite} has no stream {stream!r}; choose from {labels}")
    check_ready(list(chosen.values()))
    written: dict[str, list[str]] = {}
    seen: set[str] = set()
    for (label, model, seed), job in chosen.items():
        built = build_stream(job.stream, job.data, job.seed, job.model.build(MODELS))
        if built.fingerprint in seen:  # streams that are not calibrated are the same for every model
            continue
        seen.add(built.fingerprint)
        folder = out / "-".join(word.replace("/", "_") for word in (label, model, f"seed{seed}"))
        paths = export_shards(built, folder, shard_images=shard_images, workers=workers, part=_part(part))
        written[str(folder)] = [path.name for path in paths]
        if not as_json:
            typer.echo(f"{folder}: {len(paths)} shards")
    if as_json:
        typer.echo(json.dumps(written))
        return
    typer.echo("next: name a folder as data in a suite, {name: ccc_shards, paths: …}, with the stream as_stored")


def _part(text: str) -> tuple[int, int]:
    """Return which part of how many.

    >>> _part("3/8")
    (3, 8)
    """
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise ValueError(f"--part must be a number of a count, such as 3/8, got {text!r}")
    return int(number), int(count)
