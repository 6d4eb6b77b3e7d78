"""Put single plausible bugs into a copy of the package, one at a time, and see the tests named for each fail.

`make mutants` runs the whole list in list.toml, `python tests/mutants/run.py --only NAME` one of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIST = HERE / "list.toml"
COPIED = ("holdfast", "tests", "pyproject.toml")
FAILED = 1  # pytest's exit code of a failed test; others are errors of collection or of the command
LIMIT = 300  # seconds; a mutant that never ends is caught as well


@dataclass(frozen=True)
class Mutant:
    """One bug: the text that it replaces, and the tests that must notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problems(self, root: Path) -> list[str]:
        """Say why this mutant cannot be put into the code as it is now."""
        source = root / self.file
        count = source.read_text().count(self.old) if source.is_file() else 0
        problems = [] if count == 1 else [f"{self.name}: its old text occurs {count} times in {self.file}, not once"]
        if self.old == self.new or not self.tests:
            problems.append(f"{self.name}: it changes nothing, or names no test")
        for test in self.tests:
            path, _, name = test.partition("::")
            function = f"def {name.partition('[')[0]}("
            if not (root / path).is_file() or (name and function not in (root / path).read_text()):
                problems.append(f"{self.name}: there is no test {test}")
        return problems


def read_list(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of the list."""
    listed = tomllib.loads(path.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in listed]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants, print what became of each, and return 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="run this mutant alone; may be given again")
    only = parser.parse_args(arguments).only
    listed = read_list()
    unknown = set(only or ()) - {mutant.name for mutant in listed}
    chosen = [mutant for mutant in listed if only is None or mutant.name in only]
    problems = [f"no mutant is called {name}" for name in sorted(unknown)]
    problems += [problem for mutant in chosen for problem in mutant.problems(ROOT)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = _copied(Path(folder))
        if not problems and _tested(copy, sorted({test for mutant in chosen for test in mutant.tests}))[0] != 0:
            problems = ["the named tests do not pass without a mutant; run them first"]
        if problems:
            print(*problems, sep="\n")
            return 2
        survivors = [mutant.name for mutant in chosen if not _is_caught(mutant, copy)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants caught")
    print(*(f"survived: {name}" for name in survivors), sep="\n", end="\n" if survivors else "")
    return 1 if survivors else 0


def _copied(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def _is_caught(mutant: Mutant, copy: Path) -> bool:
    """Put a mutant into the copy, run its tests, and take it out again."""
    path, began = copy / mutant.file, time.monotonic()
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        code, failed = _tested(copy, mutant.tests, LIMIT)
    finally:
        path.write_text(text)
    word = {FAILED: f"caught by {failed}", 0: "SURVIVED"}.get(code, f"SURVIVED: pytest ended with {code}")
    print(f"{mutant.name}: {word}, {time.monotonic() - began:.0f} s", flush=True)
    return code == FAILED


def _tested(copy: Path, tests: Sequence[str], limit: float | None = None) -> tuple[int, str]:
    """Run tests on the copy, whose package hides the installed one; return pytest's exit code and the failed test."""
    # `python -m` puts the working folder first; processes that tests start have it from PYTHONPATH. Compiled files are
    # known by time and size, which a mutant may leave as they are.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-x",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        "-m",
        "",
        *tests,
    ]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, check=False, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"the limit of {limit} s"
    if done.returncode > FAILED:
        print(done.stdout[-2000:], done.stderr[-2000:])
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return done.returncode, failed[0] if failed else ""


if __name__ == "__main__":
    sys.exit(main())
