"""How things show themselves: tables of cells and their formats, HTML for notebooks, and bars for work that goes on."""

from holdfast.display.cells import WordTable
from holdfast.display.fragments import facts, fragment

__all__ = ["WordTable", "facts", "fragment"]
