"""`holdfast new method`: what it writes passes its own test and runs beside the others."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.benchmark import load_suite
from holdfast.commands.new import new_method
from holdfast.options.own_code import forget_file, loaded_files


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for file in loaded_files():
        forget_file(file)


def test_the_written_test_passes(tmp_path: Path) -> None:
    _, test, _ = new_method("sharp_tent", tmp_path)
    tests = runpy.run_path(str(test))
    for name in ("test_sharp_tent_keeps_the_contracts_of_a_method", "test_exponent_zero_is_tent"):
        tests[name]()


def test_the_suite_runs_it_beside_source_tent_and_the_default(tmp_path: Path) -> None:
    _, _, suite = new_method("sharp_tent", tmp_path)
    jobs = load_suite(suite, allow_code=True).jobs()
    assert list(dict.fromkeys(job.recipe.name for job in jobs)) == ["source", "tent", "blend", "sharp_tent"]
    assert len({job.seed for job in jobs}) > 1


def test_nothing_is_overwritten_and_names_are_checked(tmp_path: Path) -> None:
    new_method("sharp_tent", tmp_path)
    for name, problem in (("sharp_tent", "exists already"), ("tent", "already"), ("My-Tent", "lower-case")):
        with pytest.raises(ValueError, match=problem):
            new_method(name, tmp_path)
