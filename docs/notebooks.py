"""Write docs/notebooks: every tutorial as a notebook with its outputs, run by a real kernel, for docs/pages.py.

The tutorial is the one source: its text and its Python become cells, a suite is written to its file, and commands run
in the shell. Outputs are kept as long as the code of the tutorial is the same.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
TUTORIALS = ("first_adaptation", "guarded_model", "benchmark")
FENCE = re.compile(r"```(python|yaml|sh)\n(.*?)```\n?", re.DOTALL)
SECONDS = 600  # for a cell


def cells(name: str) -> list[tuple[str, str]]:
    """Return the kind and the text of each cell of a tutorial."""
    parts, end = [], 0
    text = (DOCS / "tutorials" / f"{name}.md").read_text()
    for block in FENCE.finditer(text):
        parts += [("markdown", text[end : block.start()]), ("code", _code(*block.groups()))]
        end = block.end()
    return [(kind, body.strip()) for kind, body in (*parts, ("markdown", text[end:])) if body.strip()]


def _code(language: str, body: str) -> str:
    if language == "sh":
        return "".join(f"!{line}\n" for line in body.splitlines())
    if language == "yaml":
        (suite,) = re.findall(r"^name: (\w+)", body, re.MULTILINE)
        return f"%%writefile {suite}.yaml\n{body}"
    return body


def notebook(name: str) -> Any:
    """Return a tutorial as a notebook without outputs."""
    made = []
    for number, (kind, body) in enumerate(cells(name)):
        cell = {"cell_type": kind, "id": f"{kind}-{number}", "metadata": {}, "source": body}
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def executed(name: str) -> Any:
    """Run a tutorial in an empty folder, and return the notebook with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.from_dict(notebook(name))
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]  # commands are those of this environment
    settings = {"PATH": os.pathsep.join(paths), "PLOTLY_RENDERER": "plotly_mimetype", "NO_COLOR": "1", "COLUMNS": "100"}
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        with tempfile.TemporaryDirectory() as folder:
            where = {"metadata": {"path": folder}}
            NotebookClient(made, timeout=SECONDS, coalesce_streams=True, resources=where).execute()
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})
    return made


def with_outputs(name: str, stored: Any) -> Any:
    """Return a tutorial with the outputs of a stored notebook of the same code; None if its code is other."""
    made = notebook(name)
    code, known = ([cell for cell in one["cells"] if cell["cell_type"] == "code"] for one in (made, stored))
    if [cell["source"] for cell in code] != ["".join(cell["source"]) for cell in known]:
        return None
    for cell, before in zip(code, known, strict=True):
        cell |= {key: before[key] for key in ("execution_count", "outputs")}
    return made


def pages() -> dict[Path, str]:
    """Return every notebook; only those whose code has changed are run."""
    made = {}
    for name in TUTORIALS:
        path = DOCS / "notebooks" / f"{name}.ipynb"
        kept = with_outputs(name, json.loads(path.read_text())) if path.exists() else None
        content = executed(name) if kept is None else kept
        for cell in content["cells"]:
            cell["metadata"] = {}  # times of this machine
        made[path] = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    return made
