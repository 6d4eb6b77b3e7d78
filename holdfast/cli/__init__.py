"""The command line: one file per command, which parses its arguments, makes one call and prints the result."""

from holdfast.cli.commands import app, main

__all__ = ["app", "main"]
