"""All commands, and the entry point `main`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from holdfast import __version__
from holdfast.cli.options import Imports

app = typer.Typer(
    help="Test-time adaptation for PyTorch classifiers that estimates whether it helps and goes back when it does not.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# Name -> line in the list of commands, short enough for 80 columns; the function is that of the file of this name.
COMMANDS = {
    "demo": "Show a collapse and its rescue on the embedded data.",
    "doctor": "Check a model and its data before anything adapts.",
    "card": "Measure source data once, for the default and the guard.",
    "recommend": "Find which method helps your model and data, or none.",
    "bench": "Run a suite; interrupted runs resume.",
    "report": "Write one self-contained HTML page for a folder of runs.",
    "compare": "Compare runs pair by pair.",
    "verify": "Run stored results again and compare.",
    "new": "Write the files of your own method: code, test and suite.",
    "prepare": "List the data, weights and packages that a suite needs.",
    "replay": "Run a recorded stream again with another recovery.",
    "list": "List methods, streams, suites, models, data and more.",
    "train": "Train a network.",
    "calibrate": "Find a walk of corruptions at constant difficulty (CCC).",
    "corrupt": "Corrupt files, or draw a contact sheet of corruptions.",
    "export": "Write the streams of a suite as WebDataset shards.",
    "conformance": "Compare methods with recorded outputs of official code.",
    "serve": "Serve a model that adapts to the inputs of each tenant.",
    "audit": "Verify the chain of an audit log.",
}


def _with_imports(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the option `--import`, which loads files before the command runs."""

    @wraps(command)
    def run(*, imports: list[Path] | None = None, **options: Any) -> None:
        if imports:
            from holdfast.options.own_code import import_file

            if len({path.name for path in imports}) < len(imports):
                raise ValueError("two files of --import have the same name; rename one of them")
            for path in imports:
                import_file(path)
        command(**options)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("imports", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Imports)
    parameters = [*signature.parameters.values(), option]
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    return run


for name, line in COMMANDS.items():
    app.command(name, short_help=line)(_with_imports(vars(import_module(f"holdfast.cli.{name}"))[name]))


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
    """Test-time adaptation for PyTorch classifiers that estimates whether it helps and goes back when it does not."""


def main() -> None:
    """Run the command line; print errors as one line, without a traceback unless `--debug` is given anywhere."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        app(arguments)
    except Exception as error:
        if debug:
            raise
        usual = isinstance(error, (ValueError, RuntimeError, OSError, ImportError))
        # Anything else is a fault of this package or of a network, so say which kind and how to see where.
        text = str(error) if usual else f"{type(error).__name__}: {error}; run holdfast --debug … to see where"
        Console(stderr=True).print(f"holdfast: {text}", style="red", markup=False, highlight=False)
        sys.exit(2)
