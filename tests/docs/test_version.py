"""The version is written in `holdfast.__version__`, and every other place follows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import holdfast

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "CITATION.cff").exists(), reason="the repository is not beside the tests")


def test_the_citation_has_the_version_of_the_package() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == holdfast.__version__


def test_the_build_reads_the_version_from_the_package() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^dynamic = \["version"', project, re.MULTILINE)
    assert 'version = {attr = "holdfast.__version__"}' in project
    assert not re.search(r'^version = "', project, re.MULTILINE)
