"""Write docs/notebooks: every tutorial as a notebook with its outputs, run by a real kernel, for docs/pages.py.

The tutorial is the one source: its text and its Python become cells, a suite is written to its file, and commands run
in the shell. A notebook whose cells are those of its tutorial is kept as it is.
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
TUTORIALS = ("first_adaptation", "guarded_model")
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


def executed(name: str) -> Any:
    """Run a tutorial in an empty folder, and return the notebook with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for number, (kind, body) in enumerate(cells(name)):
        new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        made.cells.append(new(body, id=f"{kind}-{number}"))
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]  # commands are those of this environment
    settings = {"PATH": os.pathsep.join(paths), "PLOTLY_RENDERER": "plotly_mimetype", "NO_COLOR": "1", "COLUMNS": "100"}
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        with tempfile.TemporaryDirectory() as folder:
            client = NotebookClient(
                made, timeout=SECONDS, coalesce_streams=True, resources={"metadata": {"path": folder}}
            )
            client.execute()
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # times of this machine
    return made


def pages() -> dict[Path, str]:
    """Return every notebook; only those whose tutorial has changed are run."""
    made = {}
    for name in TUTORIALS:
        path = DOCS / "notebooks" / f"{name}.ipynb"
        same = path.exists() and cells(name) == [
            (cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]
        ]
        made[path] = path.read_text() if same else json.dumps(executed(name), indent=1, ensure_ascii=False) + "\n"
    return made
