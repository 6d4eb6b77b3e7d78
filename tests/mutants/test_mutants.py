"""The list of mutants fits the code: each can still be put in, and the tests named for it exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from run import ROOT, Mutant, read_list

MUTANTS = read_list()


def test_every_mutant_fits_the_code() -> None:
    assert [problem for mutant in MUTANTS for problem in mutant.problems(ROOT)] == []
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"old": "2"}, "its old text occurs 0 times"),
        ({"old": "1"}, "its old text occurs 2 times"),
        ({"new": "x = 1"}, "it changes nothing"),
        ({"tests": ("test_code.py::test_other",)}, "there is no test test_code.py::test_other"),
    ],
)
def test_a_mutant_that_does_not_fit_says_why(tmp_path: Path, change: dict[str, str], problem: str) -> None:
    (tmp_path / "code.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "test_code.py").write_text("def test_one(): ...\n")
    fitting = {"name": "a", "file": "code.py", "old": "x = 1", "new": "x = 0", "tests": ("test_code.py::test_one",)}
    assert Mutant(**fitting).problems(tmp_path) == []
    assert problem in " ".join(Mutant(**{**fitting, **change}).problems(tmp_path))
