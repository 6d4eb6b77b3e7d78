"""What commands print with."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

__all__ = ["console", "plain_table"]

console = Console()


def plain_table(*headings: str) -> Table:
    """Return an empty table without lines around it."""
    return Table(*headings, box=None, pad_edge=False)
