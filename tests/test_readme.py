"""The examples in the documents run as printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch

from holdfast.benchmark.suite import parse_suite
from holdfast.diagnosis import Diagnosis
from holdfast.methods import METHODS
from holdfast.models.tiny import tiny_resnet
from holdfast.testing import check_method

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the documents are not beside the tests")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("README.md", "python"):
        exec(block, names)
    assert os.listdir(tmp_path) == ["adapted.safetensors"]
    assert isinstance(names["logits"], torch.Tensor)


def test_the_python_of_the_page_on_networks_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("docs/networks.md", "python"):
        exec(compile(block, "docs/networks.md", "exec", dont_inherit=True), names)
    assert names["same"] is True
    found = names["found"]
    assert isinstance(found, Diagnosis)
    assert [finding.check for finding in found.failed][:1] == ["input scale"]


@pytest.mark.parametrize("page", ["index", "tutorials/first_adaptation", "tutorials/guarded_model"])
def test_the_python_of_a_tutorial_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(f"docs/{page}.md", "python"):
        exec(compile(block, page, "exec", dont_inherit=True), names)
    if page.endswith("first_adaptation"):  # the numbers that the page states
        found, harmed = (names[name] for name in ("found", "harmed"))
        assert isinstance(found, dict)
        assert isinstance(harmed, dict)
        assert found == pytest.approx({"source": 39, "batch_norm": 84, "tent": 84, "blend": 55}, abs=1.5)
        assert harmed == pytest.approx({"source": 99, "batch_norm": 43, "tent": 43, "blend": 100}, abs=1.5)
        assert harmed["blend"] >= harmed["source"]
    if page.endswith("guarded_model"):
        assert names["same"] is True


def test_the_suite_of_the_tutorial_is_valid() -> None:
    (suite,) = blocks("docs/tutorials/benchmark.md", "yaml")
    assert len(parse_suite(suite).jobs()) == 2 * 2 * 5


def test_the_suite_of_the_readme_is_valid() -> None:
    (suite,) = blocks("README.md", "yaml")
    assert len(parse_suite(suite).jobs()) == 2 * 3 * 3


def test_the_readme_names_the_two_commands_and_every_method() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    assert all(f"`{name}`" in text for name in METHODS)


@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
def test_the_method_of_the_contributing_guide_keeps_the_contracts(norm: str) -> None:
    source = blocks("CONTRIBUTING.md", "python")[0]
    assert len([line for line in source.splitlines() if line.strip()]) <= 30
    try:
        exec(compile(source, "CONTRIBUTING.md", "exec", dont_inherit=True), {"__name__": "guide"})
        batches = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        check_method("pseudo_label", tiny_resnet(norm), list(batches), min_confidence=0.1)
    finally:
        METHODS.discard("pseudo_label")
