"""Every page about extending ends with a file that runs, keeps its contracts, and can be loaded by --import."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import holdfast
from holdfast.options.own_code import forget_file, loaded_files
from holdfast.registry import REGISTRIES

PAGES = Path(__file__).resolve().parents[2] / "docs" / "extending"
NAMES = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")
pytestmark = pytest.mark.skipif(not PAGES.exists(), reason="the documents are not beside the tests")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for file in loaded_files():
        forget_file(file)
    for registry in REGISTRIES:
        for name in registry.owned_by("__main__"):
            registry.discard(name)


def file_of(name: str, folder: Path) -> Path:
    """Write the file that ends a page, under the name in its first line."""
    text = (PAGES / f"{name}.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[-1]
    assert text.rstrip().endswith("```"), f"{name}.md does not end with its file"
    path = folder / str(re.match(r"# (\w+\.py)\n", code)[1])  # type: ignore[index]
    path.write_text(code)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_a_page_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(file_of(name, tmp_path)), run_name="__main__")
    printed = capsys.readouterr().out
    assert "FAILS" not in printed
    assert printed.count("holds: ") >= 2 or name in ("suite", "report_section")
    assert name != "report_section" or "### Worst batch" in printed


@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_a_page_can_be_imported(name: str, tmp_path: Path) -> None:
    file = holdfast.import_file(file_of(name, tmp_path))
    assert file.entries == (() if name == "suite" else (file.name.removesuffix(".py"),))


def test_the_index_and_the_navigation_name_every_page() -> None:
    index, nav = (PAGES / "index.md").read_text(), (PAGES.parents[1] / "mkdocs.yml").read_text()
    for name in NAMES:
        assert f"({name}.md)" in index
        assert f"extending/{name}.md" in nav
    assert yaml.safe_load(re.findall(r"```yaml\n(.*?)```", index, flags=re.DOTALL)[0])["imports"]
