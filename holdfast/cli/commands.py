"""All commands, and the entry point `main`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer
from rich.console import Console

from holdfast.cli.audit import audit
from holdfast.cli.bench import bench
from holdfast.cli.calibrate import calibrate
from holdfast.cli.compare import compare
from holdfast.cli.conformance import conformance
from holdfast.cli.corrupt import corrupt
from holdfast.cli.demo import demo
from holdfast.cli.doctor import doctor
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
    "serve": serve,
    "audit": audit,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def main() -> None:
    """Run the command line; print user errors as one line, without a traceback."""
    try:
        app()
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        Console(stderr=True).print(f"holdfast: {error}", style="red", markup=False, highlight=False)
        sys.exit(2)
