"""Run the programs in examples/ and write docs/examples: their text, their code, and what each cell prints.

docs/pages.py calls it. Cells begin with `# %%`, text with `# %% [markdown]`, so that editors open the programs
as notebooks.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "examples"
NAMES = ("first_adaptation", "your_own_model", "benchmark")


def page(name: str) -> str:
    """Run a program and return its page."""
    names = {"__name__": name}
    return "".join(shown(kind, body, names) for kind, body in cells(name)) + f"Generated from `examples/{name}.py`.\n"


def cells(name: str) -> list[tuple[str, str]]:
    """Return the cells of a program in order: `[markdown]` or nothing, and the body."""
    text = (PROGRAMS / f"{name}.py").read_text()
    return [(kind, body.strip("\n")) for kind, body in re.findall(r"# %% ?(.*)\n((?:(?!# %%).*\n?)*)", text)]


def shown(kind: str, body: str, names: dict[str, object]) -> str:
    """Return a cell as Markdown; code is run first, with the names of the cells before it."""
    if kind == "[markdown]":
        return "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines()) + "\n\n"
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(body, str(names["__name__"]), "exec", dont_inherit=True), names)
    code = f"```python\n{body}\n```\n\n"
    return code + (f"```text\n{printed.getvalue().rstrip()}\n```\n\n" if printed.getvalue() else "")


def pages() -> dict[Path, str]:
    """Return the page of every program."""
    return {HERE / "examples" / f"{name}.md": page(name) for name in NAMES}
