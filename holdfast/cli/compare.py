"""`holdfast compare`: compare runs pair by pair, or recipes over all their runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, MetricName, checked_metric
from holdfast.cli.printing import print_markdown


def compare(
    a: Annotated[Path, typer.Argument(help="A run, or a folder of runs.")],
    b: Annotated[
        Path | None, typer.Argument(help="The run, or folder of runs, to compare it with; none with --recipes.")
    ] = None,
    recipes: Annotated[
        str | None,
        typer.Option(help="Compare these recipes of one folder over all streams and seeds, e.g. mine,tent."),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Allow this protocol field to differ, e.g. recovery; may be repeated.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write the critical-difference figure of --recipes to this SVG file.")
    ] = None,
    metric: MetricName = "error",
    as_json: AsJson = False,
) -> None:
    """Compare runs pair by pair, or recipes over all runs; different protocols are refused, naming what differs."""
    chosen = checked_metric(metric)
    if (recipes is None) == (b is None):
        raise ValueError("name two folders to compare their runs, or one folder and --recipes mine,tent")
    if recipes is None:
        from holdfast.report import compare as compare_runs

        assert b is not None
        comparison = compare_runs(a, b, allow=allow or (), metric=chosen)
        typer.echo(json.dumps(comparison.to_dict()) if as_json else comparison.to_markdown())
        return
    from holdfast.report.recipe_comparison import compare_recipes, critical_difference_svg

    compared = compare_recipes(a, [name.strip() for name in recipes.split(",") if name.strip()], metric=chosen)
    if as_json:
        typer.echo(json.dumps(compared.to_dict()))
    else:
        print_markdown(compared.to_markdown())
    if figure is not None:
        figure.write_text(critical_difference_svg(compared))
        typer.echo(f"figure: {figure}", err=as_json)
