"""What pages tell a reader to do is run as it is printed; `make package` does so with README and the first tutorial."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "play_pages.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the documents are not beside the tests")
PAGE = """\
# A page

```sh
echo one > order.txt
make nothing
python -c "print('two')" >> order.txt
```

```text
echo this is no command
```

```python
lines = open("order.txt").read().split()
```

```python
open("order.txt", "a").write(f"{len(lines)} lines")
```
"""


def played(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "page.md").write_text(page)
    command = [sys.executable, str(SCRIPT), "page.md"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_commands_and_python_run_in_their_order(tmp_path: Path) -> None:
    done = played(PAGE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "order.txt").read_text().split() == ["one", "two", "2", "lines"]
    assert "page.md took 0.0 minutes" in done.stdout


@pytest.mark.parametrize(
    "broken", ["```sh\nfalse\n```", "```python\nassert False\n```", "```sh\npip install nosuch1\n```"]
)
def test_a_step_that_fails_fails_the_page(broken: str, tmp_path: Path) -> None:
    done = played(f"```sh\necho before\n```\n\n{broken}\n\n```sh\ntouch after\n```\n", tmp_path)
    assert done.returncode != 0
    assert not (tmp_path / "after").exists()


def test_readme_and_the_first_tutorial_are_played_from_the_wheel() -> None:
    wheel = SCRIPT.with_name("check_wheel.sh").read_text()
    assert "docs/play_pages.py ../../README.md ../../docs/tutorials/first_adaptation.md" in wheel
    steps = list(runpy.run_path(str(SCRIPT))["steps_of"](SCRIPT.parents[1].joinpath("README.md").read_text()))
    assert [step for language, step in steps if language == "sh"][:2] == ["pip install holdfast", "holdfast demo"]
