"""All commands, and the entry point `main`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from holdfast import __version__
from holdfast.cli.audit import audit
from holdfast.cli.bench import bench
from holdfast.cli.calibrate import calibrate
from holdfast.cli.compare import compare
from holdfast.cli.conformance import conformance
from holdfast.cli.corrupt import corrupt
from holdfast.cli.demo import demo
from holdfast.cli.doctor import doctor
from holdfast.cli.export import export
from holdfast.cli.list import list_
from holdfast.cli.prepare import prepare
from holdfast.cli.recommend import recommend
from holdfast.cli.replay import replay
from holdfast.cli.report import report
from holdfast.cli.serve import serve
from holdfast.cli.train import train

__all__ = ["app", "main"]

app = typer.Typer(
    help="Test-time adaptation that is safe enough to deploy and honest enough to publish.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "prepare": prepare,
    "bench": bench,
    "report": report,
    "compare": compare,
    "conformance": conformance,
    "list": list_,
    "train": train,
    "calibrate": calibrate,
    "doctor": doctor,
    "recommend": recommend,
    "replay": replay,
    "corrupt": corrupt,
    "export": export,
    "serve": serve,
    "audit": audit,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
) -> None:
    """Test-time adaptation that is safe enough to deploy and honest enough to publish."""


def main() -> None:
    """Run the command line; print errors as one line, without a traceback unless `--debug` comes first."""
    try:
        app()
    except Exception as error:
        if "--debug" in sys.argv[1:2]:
            raise
        usual = isinstance(error, (ValueError, RuntimeError, OSError, ImportError))
        # Anything else is a fault of this package or of a network, so say which kind and how to see where.
        text = str(error) if usual else f"{type(error).__name__}: {error}; run holdfast --debug … to see where"
        Console(stderr=True).print(f"holdfast: {text}", style="red", markup=False, highlight=False)
        sys.exit(2)
