"""Do what pages tell a reader to do, in the current folder: `python docs/play_pages.py README.md …`.

Commands and Python are taken from the pages and run as they are printed, in their order, with the holdfast of this
Python. `pip install` asks no registry, so that it only passes if the package is installed with what it needs; `make` is
left out, which needs a clone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(sh|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
HERE = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1"}


def steps_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a page has its reader do: each command by itself, and each block of Python."""
    for language, block in FENCE.findall(text):
        if language == "python":
            yield language, block
            continue
        for command in block.replace("\\\n", " ").splitlines():
            if command.strip() and not command.startswith("make "):
                yield language, command


def play(page: Path) -> None:
    """Run the steps of a page; Python blocks share their names, as in one session."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, step in steps_of(page.read_text()):
        print(f"{page.name}: {step.splitlines()[0]}", flush=True)
        if language == "python":
            exec(compile(step, str(page), "exec", dont_inherit=True), names)
        else:
            subprocess.run(step, shell=True, check=True, env={**os.environ, **HERE})


def main(pages: list[str]) -> None:
    """Run every page, and say how long a reader has waited."""
    start = time.monotonic()
    for page in pages:
        play(Path(page))
    print(f"{' and '.join(Path(page).name for page in pages)} took {(time.monotonic() - start) / 60:.1f} minutes")


if __name__ == "__main__":
    main(sys.argv[1:])
