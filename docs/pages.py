"""Write every generated page, table and figure: `python docs/pages.py`; with `--check`, say what would change.

Each script below has a function `pages` that returns its files with their content. Later scripts read what earlier ones
have written.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from pathlib import Path

DOCS = Path(__file__).parent
SCRIPTS = (
    "promise_table",
    "measured_tables",
    "paper_sections",
    "coverage_table",
    "figures",
    "speed",
    "leaderboard",
    "build",
    "examples",
    "notebooks",
)


def written_by(script: str) -> dict[Path, str]:
    """Return the files of one script with their content."""
    made: dict[Path, str] = runpy.run_path(str(DOCS / f"{script}.py"))["pages"]()
    return made


def differ(path: Path, content: str) -> bool:
    """Return whether a file is missing or other than its content; the last digits that examples print may differ."""
    if not path.exists():
        return True
    texts = (path.read_text(), content)
    printed = [text.count("```text") for text in texts]
    if path.parent == DOCS / "examples":
        texts = tuple(re.sub(r"```text\n.*?```", "", text, flags=re.DOTALL) for text in texts)
    return texts[0] != texts[1] or printed[0] != printed[1]


def main() -> None:
    """Write or check all pages, or those of the scripts that are named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=f"of {', '.join(SCRIPTS)}; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page would change")
    options = parser.parse_args()
    stale = []
    for script in options.scripts or SCRIPTS:
        changed = {path: content for path, content in written_by(script).items() if differ(path, content)}
        stale += [str(path.relative_to(DOCS.parent)) for path in changed]
        for path, content in changed.items() if not options.check else ():
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
    if options.check and stale:
        sys.exit(f"run `make pages`: {', '.join(stale)} would change")


if __name__ == "__main__":
    main()
