"""Every tutorial is a notebook with outputs, and runs through a real kernel."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "notebooks.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the documents are not beside the tests")
TUTORIALS = ("first_adaptation", "guarded_model", "benchmark")
LARGEST = 200_000  # bytes: figures are stored without Plotly


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def shown(notebook: Any) -> list[set[str]]:
    """Return the formats in which each cell of code shows something."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [{kind for output in cell["outputs"] for kind in output.get("data", {"text": ""})} for cell in code]


def test_every_tutorial_is_a_notebook(made: dict[str, Any]) -> None:
    pages = {page.stem for page in (SCRIPT.parent / "tutorials").glob("*.md")}
    assert pages == set(made["TUTORIALS"]) == set(TUTORIALS)


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_has_the_cells_of_its_tutorial_and_their_outputs(made: dict[str, Any], name: str) -> None:
    path = SCRIPT.parent / "notebooks" / f"{name}.ipynb"
    assert path.stat().st_size < LARGEST
    notebook = json.loads(path.read_text())
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells == made["cells"](name), "run `make pages`"
    assert {"text/html", "application/vnd.plotly.v1+json"} & set().union(*shown(notebook))


def test_suites_are_written_and_commands_run_in_the_shell(made: dict[str, Any]) -> None:
    code = [body for kind, body in made["cells"]("benchmark") if kind == "code"]
    assert code[0].startswith("%%writefile mine.yaml\nname: mine")
    assert code[1].splitlines()[0] == "!holdfast bench mine.yaml --dry-run"


@pytest.mark.slow
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs_through_a_real_kernel(made: dict[str, Any], name: str) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = made["executed"](name)  # raises where a cell does
    stored = json.loads((SCRIPT.parent / "notebooks" / f"{name}.ipynb").read_text())
    assert shown(notebook) == shown(stored)
    printed = "".join(output.get("text", "") for cell in notebook["cells"] for output in cell.get("outputs", []))
    assert "Traceback" not in printed
    assert "holdfast: " not in printed, "a command that fails says so after its name"
