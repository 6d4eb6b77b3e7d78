"""The pages of the methods name papers, equations and alternatives, and link to known addresses only."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from holdfast.commands.description import list_methods

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documents are not beside the tests")


@pytest.fixture(scope="module")
def build() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "build.py"))


def test_every_method_has_facts_and_no_other_name_has(build: dict[str, Any]) -> None:
    assert sorted(build["METHOD_FACTS"]) == list_methods()


@pytest.mark.parametrize("name", list_methods())
def test_a_page_says_where_a_method_comes_from_and_what_to_try_instead(build: dict[str, Any], name: str) -> None:
    facts, page = build["METHOD_FACTS"][name], build["page"](name)
    assert facts.paper or name in (*build["OURS"], "source"), "name the paper in docs/method_facts.yaml"
    assert all(str(build["PAPERS"][key]) in page for key in facts.paper)
    assert len(facts.near) == 3
    assert set(facts.near) <= set(list_methods()) - {name}
    assert page.count("```math") == len(facts.equation) >= 1
    assert facts.idea.endswith(".")
    assert facts.where.endswith(".")
    assert "| values |" in page or "## Options" not in page


def test_every_paper_is_that_of_a_method(build: dict[str, Any]) -> None:
    assert {key for facts in build["METHOD_FACTS"].values() for key in facts.paper} == set(build["PAPERS"])


def test_every_equation_can_be_drawn(build: dict[str, Any]) -> None:
    convert = pytest.importorskip("latex2mathml.converter").convert
    drawn = {formula: convert(formula) for facts in build["METHOD_FACTS"].values() for formula in facts.equation}
    assert [formula for formula, markup in drawn.items() if "\\" in markup or "<math" not in markup] == []


def test_the_site_draws_equations_without_a_script() -> None:
    pytest.importorskip("latex2mathml")
    hooks = runpy.run_path(str(DOCS / "site_hooks.py"))
    page = type("Page", (), {"is_homepage": True, "meta": {}, "file": type("File", (), {"src_uri": "methods/tent.md"})})
    markup = hooks["on_page_markdown"]("text\n\n```math\na^2\n```\n\nmore", page=page)
    assert "<msup><mi>a</mi><mn>2</mn></msup>" in markup
    assert "```" not in markup


def test_the_pages_link_to_listed_addresses_only(monkeypatch: pytest.MonkeyPatch) -> None:
    links = runpy.run_path(str(DOCS / "check_links.py"))
    assert links["mistakes"]() == []
    monkeypatch.setitem(links["mistakes"].__globals__, "listed", lambda: ["https://nowhere.example"])
    assert any("nowhere.example in docs/links.txt is on no page" in sentence for sentence in links["mistakes"]())
    assert any("add it" in sentence for sentence in links["mistakes"]())
